"""The generations of a mart elsewhere: which set of documents is built, which is served, which is to go."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated

SQL = queries("indexes")


@dataclass(frozen=True)
class Edition:
    """One index of a pipeline, and how far its documents have arrived."""

    pipeline_id: UUID
    number: int
    target: str
    index: str
    uuid: str | None
    state: str
    shape: str
    key: tuple[str, ...]
    last_version: int
    confirmed: int

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `all` or `expired`."""
        return cls(
            row["pipeline_id"],
            row["generation"],
            row["target"] if ":" in row["target"] else ES_TARGET_PREFIX + row["target"],
            row["index_name"],
            row["index_uuid"],
            row["state"],
            row["shape"],
            tuple(row["key_columns"]),
            row["last_version"],
            row["confirmed"],
        )

    @property
    def is_building(self) -> bool:
        """Whether no search sees it yet."""
        return self.state == "building"

    @property
    def in_flight(self) -> bool:
        """Whether something may have been written ahead and not have arrived."""
        return self.confirmed < self.last_version

    @property
    def shadow(self) -> str:
        """The name of its shadow, in schema etl_shadow."""
        return f"d_{self.pipeline_id.hex}_{self.number}"


@dataclass(frozen=True)
class IndexRepo:
    """Table `etl_indexes`, which has the targets of Elasticsearch without their prefix."""

    conn: Connection
    pipeline_id: UUID

    def all(self) -> list[Edition]:
        """Newest first."""
        rows = fetch_all(self.conn, SQL["all"], {"pipeline_id": self.pipeline_id})
        return [Edition.from_row(row) for row in rows]

    def add(self, number: int, target: str, index: str, shape: str, key: Sequence[str]) -> None:
        """A new generation, to be built."""
        target = target.removeprefix(ES_TARGET_PREFIX)
        self._execute("add", number, target=target, index_name=index, shape=shape, key=list(key))

    def give_up_building(self) -> None:
        """Retire what was begun."""
        with translated():
            self.conn.execute(SQL["give_up_building"], {"pipeline_id": self.pipeline_id})

    def created(self, number: int, uuid: str) -> None:
        """Its index exists."""
        self._execute("created", number, uuid=uuid)

    def advance(self, number: int, confirmed: int) -> int:
        """The version of the next batch."""
        params = {"pipeline_id": self.pipeline_id, "generation": number, "confirmed": confirmed}
        row = fetch_one(self.conn, SQL["advance"], params)
        assert row is not None
        return int(row["last_version"])

    def confirm(self, number: int) -> int:
        """Everything has arrived; up to this version."""
        row = fetch_one(self.conn, SQL["confirm"], {"pipeline_id": self.pipeline_id, "generation": number})
        assert row is not None
        return int(row["confirmed"])

    def raise_version(self, number: int, seen: int) -> None:
        """Go above a version that was seen in the index."""
        self._execute("raise_version", number, seen=seen)

    def publish(self, number: int) -> None:
        """It is served from here on; the others are retired."""
        self._execute("retire", number)
        self._execute("go_live", number)

    def expired(self, grace: float) -> list[Edition]:
        """Those that may go."""
        return expired(self.conn, grace, self.pipeline_id)

    def remove(self, number: int) -> None:
        """Forget it."""
        self._execute("remove", number)

    def _execute(self, query: str, number: int, **params: Any) -> None:
        with translated():
            self.conn.execute(SQL[query], {"pipeline_id": self.pipeline_id, "generation": number, **params})


def expired(conn: Connection, grace: float, pipeline_id: UUID | None = None) -> list[Edition]:
    """Editions that were retired longer ago than the grace, of one pipeline or of all."""
    rows = fetch_all(conn, SQL["expired"], {"pipeline_id": pipeline_id, "grace": grace})
    return [Edition.from_row(row) for row in rows]


def orphaned_shadows(conn: Connection) -> list[str]:
    """Tables of schema etl_shadow that belong to no pipeline any more."""
    return [row["relname"] for row in fetch_all(conn, SQL["orphaned_shadows"])]
