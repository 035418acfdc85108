"""Names of columns that come from elsewhere."""

from vitrina.domain.errors import ConfigError

NAME_BYTES = 63  # Postgres cuts longer ones


def checked(name: str) -> str:
    """The name; a ConfigError for one that Postgres cannot have."""
    if not name or "\0" in name or len(name.encode()) > NAME_BYTES:
        raise ConfigError(f"a column of the query has a name that Postgres cannot have: {name!r}", "rename it with AS")
    return name
