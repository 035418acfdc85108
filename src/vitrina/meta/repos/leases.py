"""Leases: who holds which pipeline, until when, and how it changes hands."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.errors import LeaseLost, VitrinaError
from vitrina.domain.events import PASSING
from vitrina.domain.lifecycle import TRANSITIONS, RunStatus, Status
from vitrina.domain.positions import Stored
from vitrina.domain.request import AFTER_REPAIR, RequestKind
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, stall_limit, translated
from vitrina.meta.repos.marks import PIPELINE, Mark
from vitrina.meta.repos.outages import OutageRepo, Pauses, Postponed
from vitrina.meta.repos.waits import POSTPONED_SECONDS

SQL = queries("leases")
REQUESTS = queries("requests")
RUNS, CHECKS = queries("runs"), queries("checks")
STATE = queries("state")
ERROR_LENGTH = 4_000
SHORTEST = 1.25  # seconds of a lease; a shorter one leaves several statements no time


def storable(error: str) -> str:
    """An error's text as Postgres can keep it, whatever it quotes: not too long, no NUL, no half characters."""
    return error[:ERROR_LENGTH].replace("\0", "\\0").encode(errors="backslashreplace").decode()[:ERROR_LENGTH]


def error_columns(error: str, remedy: str = "") -> dict[str, str | None]:
    """What is wrong and what to do about it, each in a column of its own."""
    return {"error": storable(error) or None, "remedy": storable(remedy) or None}


@dataclass(frozen=True)
class Claim:
    """A pipeline in our hands: its configuration as claimed, and where the fence stands."""

    pipeline_id: UUID
    name: str
    target: str  # as configured; empty if it does not say
    version: int
    run_id: int  # 0: it is followed, and there is none
    attempt: int  # of the run; the lease is this attempt's
    options: RunOptions
    epoch: int
    seq: int
    checkpoint: Stored | None
    config_hash: str | None
    columns: dict[str, Any] | None
    config: dict[str, Any]
    asked: bool  # by somebody; else it was due
    since: datetime | None = None  # what was read of the query since then will do

    @classmethod
    def from_row(cls, row: DictRow) -> Self:
        """From `claim` or `take_over`."""
        options = RunOptions(**{k: bool(v) for k, v in row["options"].items() if k in RunOptions.__dataclass_fields__})
        return cls(**(row | {"options": options}))


@dataclass(frozen=True)
class LeaseRepo:
    """Tables `etl_leases`, and `etl_runs` and `etl_state` as far as a claim moves them."""

    conn: Connection
    owner: UUID
    runner: str
    seconds: float

    def claim(self, only: UUID | None = None, avoided: Sequence[str] = ()) -> Claim | None:
        """The oldest due pipeline whose source and sink (by prefix) are not avoided, or the only one that is asked
        for; None when nothing is due. One statement: a runner that stalls here locks nothing."""
        row = fetch_one(self.conn, SQL["claim"], self._params(only=only, avoided=list(avoided)))
        config = fetch_one(self.conn, SQL["claimed_config"], row) if row else None
        return Claim.from_row(row | config) if row and config else None

    def expired(self, only: UUID | None = None) -> list[DictRow]:
        """Leases whose holder has gone silent."""
        return fetch_all(self.conn, SQL["expired"], {"only": only})

    def expel(self, dead: Mapping[str, Any]) -> None:
        """End the transaction that the silent holder has open, if any."""
        if fetch_one(self.conn, SQL["expel"], {"pipeline_id": dead["pipeline_id"], "owner": dead["owner"]}):
            Mark(self.conn, str(dead["pipeline_id"]), PIPELINE).expel()

    def reclaim(self, dead: Mapping[str, Any]) -> Claim | None:
        """Take over from a silent holder; None if it renewed or another runner was first."""
        where = self._params(pipeline_id=dead["pipeline_id"], owner_before=dead["owner"])
        with self._transaction():
            found = self.conn.execute(SQL["reclaim"], where).fetchone()
            if found is None:
                return None
            row = self.conn.execute(SQL["take_over"], self._params(**found)).fetchone()
            assert row is not None
        return Claim.from_row(row)

    def bury(self, dead: Mapping[str, Any], reason: str) -> bool:
        """Nobody goes on with it; False if it renewed or another runner was first."""
        params = {f"{name}_before": dead[name] for name in ("owner", "status", "enabled")}
        params |= {"pipeline_id": dead["pipeline_id"], "reason": reason}
        return fetch_one(self.conn, SQL["bury"], params) is not None

    def renew(self, run_ids: Collection[int]) -> dict[int, Status]:
        """The heartbeat: the status of every lease that is still ours."""
        rows = fetch_all(self.conn, SQL["renew"], self._params(run_ids=list(run_ids)))
        return {row["run_id"]: Status(row["status"]) for row in rows}

    def hurried(self, run_ids: Collection[int]) -> set[int]:
        """Those of our runs that are to pause at once, in the middle of whatever they do."""
        rows = fetch_all(self.conn, SQL["hurried"], self._params(run_ids=list(run_ids)))
        return {row["run_id"] for row in rows}

    def begin_attempt(self, claim: Claim, error: str, remedy: str = "") -> Claim:
        """The next attempt, under the same claim; this is how the last one ended."""
        with self._transaction():
            params = self._of(claim) | error_columns(error, remedy)
            found = self.conn.execute(RUNS["begin_attempt"], params).fetchone()
            if found is None:
                raise LeaseLost(f"the lease on {claim.name!r} is lost")
            state = self.conn.execute(STATE["get"], {"pipeline_id": claim.pipeline_id}).fetchone()
            assert state is not None
        kept = {name: state[name] for name in ("seq", "checkpoint", "config_hash", "columns")}
        return replace(claim, attempt=found["attempt"], **kept)

    def succeed(self, claim: Claim, *, is_burst: bool = False) -> None:
        """Done; it rests until it is due again, or is followed from now on. A burst is added to those of the hour, and
        after a repair mart and query are compared again."""
        with self._transaction():
            self._leave("succeed", claim, RunStatus.SUCCESS)
            if is_burst:
                self._roll_up(claim)
            if claim.options.repair:  # whoever asked for it wants to know
                asked = {"kind": RequestKind.RECONCILE, "params": Jsonb({}), "asked_by": AFTER_REPAIR}
                self.conn.execute(REQUESTS["ask"], asked | {"pipeline_id": claim.pipeline_id})

    def _roll_up(self, claim: Claim) -> None:
        run = {"run_id": claim.run_id}
        hour = self.conn.execute(RUNS["add_to_hour"], run).fetchone()
        if hour is None:
            self.conn.execute(RUNS["mark_burst"], run)
        else:
            self.conn.execute(RUNS["move_events"], run | {"hour_id": hour["id"], "passing": [*PASSING]})
            self.conn.execute(CHECKS["move"], run | {"hour_id": hour["id"]})
            self.conn.execute(RUNS["drop"], run)

    def pause(self, claim: Claim) -> None:
        """Stopped between batches, as asked."""
        self._leave("pause", claim, RunStatus.PAUSED)

    def fail(self, claim: Claim, error: str, remedy: str = "", pauses: Pauses | None = None) -> None:
        """Stopped by an error, until somebody asks for a run; or for a while, if the pipeline says so."""
        with self._transaction():
            left = self._leave("fail", claim, RunStatus.FAILED, error, remedy)
            if left["old_status"] == Status.RUNNING and pauses and OutageRepo(self.conn).try_later(claim.pipeline_id):
                self._postpone(claim, None, error, remedy, pauses)

    def hand_back(self, claim: Claim, reason: str) -> None:
        """Stopped between batches because this runner ends; another goes on."""
        self._leave("hand_back", claim, RunStatus.PAUSED, reason)

    def wait(self, claim: Claim, reason: str) -> None:
        """Stopped between batches until somebody outside is done; no slot is held meanwhile, and nothing has failed."""
        with self._transaction():
            self._leave("wait", claim, RunStatus.PAUSED, reason, stays_open=True)
            self.conn.execute(SQL["postpone"], {"pipeline_id": claim.pipeline_id, "postponed": POSTPONED_SECONDS})

    def put_off(self, claim: Claim, neighbour: str, error: VitrinaError, pauses: Pauses) -> Postponed | None:
        """Stopped because somebody is away: the run stays open, holds no slot, and goes on later; None if it rests."""
        with self._transaction():
            self._leave("wait", claim, RunStatus.FAILED, error.message, error.remedy, stays_open=True)
            return self._postpone(claim, neighbour, error.message, error.remedy, pauses)

    def _postpone(
        self, claim: Claim, neighbour: str | None, error: str, remedy: str, pauses: Pauses
    ) -> Postponed | None:
        return OutageRepo(self.conn).postpone(self._of(claim) | error_columns(error, remedy), neighbour, pauses)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Several statements that lock the pipeline: should this process stall between them, the server ends it."""
        with translated(), self.conn.transaction():
            self.conn.execute(STATE["approach_fence"], {"timeout": stall_limit(max(self.seconds, SHORTEST))})
            yield

    def _leave(
        self,
        transition: str,
        claim: Claim,
        run_status: RunStatus,
        error: str = "",
        remedy: str = "",
        *,
        stays_open: bool = False,
    ) -> DictRow:
        moves = Jsonb(TRANSITIONS[transition])
        params = self._of(claim) | error_columns(error, remedy) | {"moves": moves, "run_status": run_status}
        params |= {"stays_open": stays_open}
        left = fetch_one(self.conn, STATE["leave"], params)
        if left is None:
            raise LeaseLost(f"the lease on {claim.name!r} is lost")
        return left

    def _of(self, claim: Claim) -> dict[str, Any]:
        return {name: getattr(claim, name) for name in ("pipeline_id", "run_id", "attempt")} | {"owner": self.owner}

    def _params(self, **more: Any) -> dict[str, Any]:
        return {"owner": self.owner, "runner": self.runner, "seconds": self.seconds} | more
