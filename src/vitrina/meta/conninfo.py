"""Connection strings that know which setting says them: what cannot be reached by one names it."""


class Said(str):
    """A connection string, and the variable to be corrected if it is wrong."""

    setting: str

    def __new__(cls, conninfo: str, setting: str = "") -> "Said":
        """Without a setting too, since pickle makes it so before it gives back what it knew."""
        said = super().__new__(cls, conninfo)
        said.setting = setting
        return said


def setting_of(conninfo: str) -> str:
    """Empty where nobody's setting says it, as with a server of our own."""
    return conninfo.setting if isinstance(conninfo, Said) else ""
