"""What keeps files comes with an extra: whoever keeps no mart in them is spared its weight."""

from types import ModuleType

from vitrina.domain.errors import ConfigError


def parquet() -> ModuleType:
    """The module that writes them; a ConfigError where the extra is missing."""
    try:
        from vitrina.sinks.files import draft as found
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return found


def bucket() -> ModuleType:
    """The module of buckets; a ConfigError where the extra is missing."""
    try:
        from vitrina.sinks.files import bucket as found
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return found


def _missing(error: ModuleNotFoundError) -> Exception:
    if (error.name or "").startswith("vitrina"):
        return error
    said = f"a mart in files needs {error.name}, which is not installed"
    return ConfigError(said, "pip install 'vitrina[files]', where runners run")
