"""What speaks Arrow comes with an extra for each kind: whoever reads no such source is spared its weight."""

from collections.abc import Iterator
from contextlib import contextmanager

from vitrina.domain.errors import ConfigError


@contextmanager
def of_extra(extra: str) -> Iterator[None]:
    """Imports that need it; a ConfigError where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("vitrina"):
            raise
        said = f"a source of this kind needs {error.name}, which is not installed"
        raise ConfigError(said, f"pip install 'vitrina[{extra}]', where runners and the API run") from error
