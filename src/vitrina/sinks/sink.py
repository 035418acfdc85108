"""What every kind of mart is to the rest: one face, with what it can do as data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from vitrina.domain.pipeline import Plan
from vitrina.engine.asking import Asked
from vitrina.engine.job import Job, Mode
from vitrina.engine.writer import Abilities, Writer
from vitrina.meta.db import Connection
from vitrina.meta.repos.indexes import Edition
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sources.connections import Connections
from vitrina.sql.describe import Column


class Sink(Protocol):
    """One kind of place where marts live; found by the prefix of the target, in `registry.py`."""

    abilities: Abilities
    neighbour: str = ""  # by which it is known whether it answers; empty: it answers with the warehouse, or nobody asks

    def writer(self, plan: Plan, output: Sequence[Column], *, builds: bool) -> Writer:
        """For one run, over what the query or the last transform gives; `builds`: the source can build documents."""
        ...

    def asked(self, plan: Plan, output: Sequence[Column]) -> Asked:
        """The mart as its checks see it, over what the query or the last transform gives."""
        return Asked.of(output, plan.key)

    def mode(self, job: Job, make: Callable[[Job], Mode], connections: Connections, epoch: int) -> Mode:
        """The steps of a job: those that `make` gives, with whatever the kind needs around them."""
        ...

    def look(self, settings: Settings, neighbours: Neighbours | None = None) -> Mapping[str, Any]:
        """By its name, how it answers, for people; nothing where there is none."""
        del settings, neighbours
        return {}

    def probe(self, settings: Settings, neighbours: Neighbours) -> None:
        """Ask it anything, so that they are told whether it answers."""
        del settings, neighbours

    def keep_up(self, conn: Connection, settings: Settings) -> None:
        """Look after marts that no run writes just now."""
        del conn, settings

    def tidy(self, conn: Connection, settings: Settings, retired: Sequence[Edition]) -> None:
        """Remove what no run comes back to."""
        del conn, settings, retired
