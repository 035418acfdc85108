"""What keeps lakes comes with an extra: whoever keeps no mart in one is spared its weight."""

from types import ModuleType

from vitrina.domain.errors import ConfigError


def iceberg() -> ModuleType:
    """The module of tables; a ConfigError where the extra is missing."""
    try:
        from vitrina.sinks.lake import iceberg as found
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("vitrina"):
            raise
        said = f"a mart in a lake needs {error.name}, which is not installed"
        raise ConfigError(said, "pip install 'vitrina[lake]', where runners run") from error
    return found
