"""What the marts of a crew share: one set of sessions, and what one of them has read of the log."""

from contextlib import ExitStack, suppress
from dataclasses import dataclass

from vitrina.engine.live.feed import SharedFeed
from vitrina.meta.db import Connection, translated
from vitrina.sources.connections import Connections
from vitrina.sources.source import Source


@dataclass(frozen=True)
class Sessions:
    """Of one crew."""

    writer: Connection
    meta: Connection
    reader: Source
    listener: Connection
    feed: SharedFeed
    stack: ExitStack

    @classmethod
    def open(cls, connections: Connections, source: str) -> "Sessions":
        """All of them, or none."""
        with ExitStack() as stack:
            writer = stack.enter_context(connections.open_warehouse(f"following {source}"))
            meta = stack.enter_context(connections.open_warehouse("follow"))
            listener = stack.enter_context(connections.open_listener())
            reader = stack.enter_context(connections.resolve_reader(source))
            with translated():
                listener.execute("LISTEN vitrina_changes")
            return cls(writer, meta, reader, listener, SharedFeed(source, meta), stack.pop_all())

    @property
    def is_broken(self) -> bool:
        """Whether one of them is lost."""
        lost = any(conn.broken or conn.closed for conn in (self.writer, self.meta, self.listener))
        return lost or self.reader.is_lost

    def close(self) -> None:
        """As far as they still can be."""
        with suppress(Exception):
            self.stack.close()
