"""Names of columns that come from elsewhere."""

from vitrina.domain.errors import ConfigError
from vitrina.domain.source_refusals import SourceRefusal

NAME_BYTES = 63  # Postgres cuts longer ones


def checked(name: str) -> str:
    """The name; a ConfigError for one that Postgres cannot have."""
    if not name or "\0" in name or len(name.encode()) > NAME_BYTES:
        raise ConfigError.of(SourceRefusal.NAME_NOT_POSTGRES, name=name)
    return name
