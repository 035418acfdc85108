"""Checks: what came of them in each run, and how each stands."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.meta.db import Connection, fetch_all, queries, translated

SQL = queries("checks")


@dataclass(frozen=True)
class KeptOutcome:
    """What came of asking a check."""

    name: str
    kind: str
    effect: str
    definition: str
    outcome: str  # kept, broken, blocked or unasked
    rows: int
    keys: Sequence[Mapping[str, str]]
    error: str | None
    of_all: bool


@dataclass(frozen=True)
class CheckRepo:
    """Tables `etl_checks` and `etl_run_checks`, for one pipeline."""

    conn: Connection
    pipeline_id: UUID

    def standing(self) -> list[DictRow]:
        """How each check stood when it was asked last."""
        return fetch_all(self.conn, SQL["standing"], {"ids": [self.pipeline_id]})

    def keep(self, run_id: int, outcome: KeptOutcome) -> None:
        """In a run's history; and how the check stands, if that is known: rows of a batch that keep it tell of no
        others."""
        params: dict[str, Any] = asdict(outcome) | {"keys": Jsonb(list(outcome.keys)), "run_id": run_id}
        params["pipeline_id"] = self.pipeline_id
        with translated():
            self.conn.execute(SQL["keep"], params)
            if outcome.of_all or outcome.outcome != "kept":
                self.conn.execute(SQL["stand"], params)

    def judge(self) -> None:
        """Whether rows are in the mart that break a check is an incident, opened and closed."""
        with translated():
            self.conn.execute(SQL["judge"], {"pipeline_id": self.pipeline_id})


def of_run(conn: Connection, run_id: int) -> list[DictRow]:
    """What came of the checks in a run."""
    return fetch_all(conn, SQL["of_run"], {"run_id": run_id})


def not_kept(conn: Connection, ids: Sequence[int]) -> dict[int, list[DictRow]]:
    """What was not kept in these runs."""
    found: dict[int, list[DictRow]] = {}
    for row in fetch_all(conn, SQL["not_kept"], {"ids": list(ids)}):
        found.setdefault(row["run_id"], []).append(row)
    return found


def standing(conn: Connection, ids: Sequence[UUID]) -> dict[UUID, list[DictRow]]:
    """How the checks of these pipelines stand."""
    found: dict[UUID, list[DictRow]] = {}
    for row in fetch_all(conn, SQL["standing"], {"ids": list(ids)}):
        found.setdefault(row.pop("pipeline_id"), []).append(row)
    return found
