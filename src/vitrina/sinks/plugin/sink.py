"""Marts that other packages keep: a store by entry point, found by the prefix of the target."""

from importlib.metadata import EntryPoint

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.policy import split_prefix
from vitrina.plug_ins import brought
from vitrina.settings import Settings
from vitrina.sinks.documents.sink import DocumentSink, Visit
from vitrina.stores import Store

WRITERS = "vitrina.writers"


class PluginSink(DocumentSink):
    """What is registered for a prefix; whether anything is, is asked when it is needed."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def is_there(self, settings: Settings) -> bool:
        """Whether its package is installed here."""
        del settings
        return self.prefix in _registered()

    def open(self, visit: Visit) -> Store:
        """As the package makes it."""
        _, name = split_prefix(visit.target)
        found = _registered()
        if self.prefix not in found:
            known = ", ".join(f"{name}:" for name in sorted(found)) or "none"
            raise ConfigError.of(MartRefusal.NO_WRITER, prefix=self.prefix, known=known, group=WRITERS)
        store: Store = found[self.prefix].load()(name)
        return store


def _registered() -> dict[str, EntryPoint]:
    return {point.name: point for point in brought(WRITERS)}
