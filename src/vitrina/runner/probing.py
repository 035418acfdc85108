"""The prober: asks a neighbour that does not answer, outside the slots and one attempt at a time, until it does."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from threading import Event, Thread

from vitrina.domain.errors import VitrinaError
from vitrina.runner.service import pause_after
from vitrina.sinks import registry
from vitrina.sources.connections import Connections

LONGEST_PAUSE = 15.0  # seconds between two attempts


@dataclass(frozen=True)
class Prober:
    """A thread for each outage. It holds nothing, and the runner need not wait for it to end."""

    connections: Connections
    stopping: Event

    def begin(self, name: str) -> None:
        """An outage has begun."""
        Thread(target=self._ask_until_heard, args=(name,), name=f"probe {name}", daemon=True).start()

    def _ask_until_heard(self, name: str) -> None:
        since = self.connections.neighbours.down_since(name)
        for asked in count(1):
            pause = pause_after(asked, LONGEST_PAUSE)
            self.connections.neighbours.ask_in(name, pause)
            over = self.stopping.wait(pause)
            if over or not since or self.connections.neighbours.down_since(name) != since:
                return
            with suppress(VitrinaError):  # noted where it was asked
                self._ask(name)

    def _ask(self, name: str) -> None:
        if not registry.probe(name, self.connections.settings, self.connections.neighbours):
            with self.connections.resolve_reader(name) as reader:
                reader.version()
