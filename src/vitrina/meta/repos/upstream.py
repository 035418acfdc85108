"""Marts over marts: what each pipeline reads of the warehouse, who writes that, and who is due after whom."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.errors import UndefinedTable
from psycopg.rows import DictRow

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.marks import TURN, Mark

SQL = queries("upstream")


@dataclass(frozen=True)
class Writer:
    """A pipeline, its mart, and what it reads itself."""

    id: UUID
    name: str
    mart: str
    mode: str
    reads: Sequence[str]
    is_there: bool = True  # the mart


def circle(mart: str, reads: Sequence[str], above: Sequence[Writer]) -> Sequence[str]:
    """The shortest way from a mart through what is read for it back to itself; empty if there is none."""
    reads_of = {writer.mart: writer.reads for writer in above}
    ways, seen = deque[tuple[str, ...]]([(mart,)]), set[str]()
    while ways:
        way = ways.popleft()
        for relation in reads if len(way) == 1 else reads_of.get(way[-1], ()):
            if relation == mart:
                return (*way, relation)
            if relation not in seen:
                seen.add(relation)
                ways.append((*way, relation))
    return ()


def require_no_circle(mart: str, reads: Sequence[str], above: Sequence[Writer]) -> None:
    """A ConfigError that names the way if a mart would be made of itself."""
    if way := circle(mart, reads, above):
        raise ConfigError.of(Refusal.MADE_OF_ITSELF, way=" reads ".join(way))


@contextmanager
def naming_writers(above: Callable[[Sequence[str]], Sequence[Writer]], tables: Sequence[str]) -> Iterator[None]:
    """Of a query over a mart that is not there yet, the error says who makes it."""
    try:
        yield
    except ConfigError as error:
        if not isinstance(error.__cause__, UndefinedTable):
            raise
        missing = [writer for writer in above(tables) if writer.mart in tables and not writer.is_there]
        if not missing:
            raise
        name = missing[0].name
        raise ConfigError.of(Refusal.MART_NOT_THERE, error.at, reason=error.because, name=name) from error


@dataclass(frozen=True)
class UpstreamRepo:
    """Table `etl_reads` and what follows from it."""

    conn: Connection

    def above(self, relations: Sequence[str]) -> list[Writer]:
        """Who writes any of these relations, and whoever is upstream of them."""
        return [Writer(**row) for row in fetch_all(self.conn, SQL["above"], {"relations": list(relations)})]

    def save(self, pipeline_id: UUID, mart: str, reads: Sequence[str]) -> None:
        """In the transaction of an edit: keep what the pipeline reads from now on."""
        with translated():
            self.conn.execute(SQL["settle_version"])
        self._keep(pipeline_id, mart, reads, None)

    def keep(self, pipeline_id: UUID, version: int, mart: str, reads: Sequence[str]) -> None:
        """Keep what a configuration reads; a ConfigError if that leads back to its own mart: then nothing is kept."""
        kept = fetch_one(self.conn, SQL["kept"], {"pipeline_id": pipeline_id})
        if kept == {"reads": list(reads), "version": version}:
            require_no_circle(mart, reads, self.above(reads))
            return
        with translated(), self.conn.transaction():
            self._keep(pipeline_id, mart, reads, version)

    def unknown(self) -> list[DictRow]:
        """Pipelines that are to be due after others, and of which it is not known what they read."""
        return fetch_all(self.conn, SQL["unknown"])

    def wake_downstream(self) -> int:
        """Pipelines are due after those whose marts they read; how many became so."""
        with translated():
            return self.conn.execute(SQL["wake_downstream"]).rowcount

    def _keep(self, pipeline_id: UUID, mart: str, reads: Sequence[str], version: int | None) -> None:
        """One at a time: of two that would read each other's marts the second is refused."""
        Mark(self.conn, "vitrina marts", TURN).leave()
        require_no_circle(mart, reads, self.above(reads))
        params: dict[str, Any] = {"pipeline_id": pipeline_id, "reads": list(reads), "version": version}
        with translated():
            self.conn.execute(SQL["keep"], params)
