"""Following: who has which live mart between two runs, and what is kept of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.domain.errors import LeaseLost
from vitrina.domain.run import Counts, RunOptions
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated
from vitrina.meta.repos.leases import SQL as LEASES
from vitrina.meta.repos.leases import Claim, storable
from vitrina.meta.repos.marks import PIPELINE, Mark

SQL = queries("following")
NO_RUN = 0  # of a claim without one


@dataclass(frozen=True)
class Move:
    """Of a mart that nothing up to there concerns."""

    id: UUID
    epoch: int
    seq: int
    at_id: int


@dataclass(frozen=True)
class FollowingRepo:
    """Tables `etl_leases`, `etl_state` and `etl_runs`, as far as a follower moves them."""

    conn: Connection
    owner: UUID
    runner: str
    seconds: float

    def free(self, held: Collection[UUID]) -> list[DictRow]:
        """Marts that nobody follows, though they should be; `held`: those that this process does."""
        return fetch_all(self.conn, SQL["free"], {"owner": self.owner, "held": list(held)})

    def waiting(self, ids: Sequence[UUID]) -> set[UUID]:
        """Those with something to do."""
        return {row["id"] for row in fetch_all(self.conn, SQL["waiting"], {"ids": list(ids)})}

    def share(self) -> int:
        """How many of all this runner should have, if each has as many."""
        row = fetch_one(self.conn, SQL["share"], {"seconds": self.seconds})
        assert row is not None
        return -(-int(row["marts"]) // max(int(row["runners"]), 1))

    def expel(self, lost: Mapping[str, Any]) -> None:
        """End the transaction that a silent holder has open, if any."""
        if fetch_one(self.conn, LEASES["expel"], {"pipeline_id": lost["id"], "owner": lost["owner"]}):
            Mark(self.conn, str(lost["id"]), PIPELINE).expel()

    def take(self, pipeline_id: UUID) -> tuple[Claim, int] | None:
        """Begin to follow, and how many runners it has cost in a row; None if another was first."""
        params = {"owner": self.owner, "runner": self.runner, "seconds": self.seconds, "pipeline_id": pipeline_id}
        row = fetch_one(self.conn, SQL["take"], params)
        config = fetch_one(self.conn, LEASES["claimed_config"], row) if row else None
        if row is None or config is None:
            return None
        crashes = row.pop("crashes")
        more = {"run_id": NO_RUN, "attempt": 1, "options": RunOptions(), "asked": False}
        return Claim(**(row | config | more)), crashes

    def mine(self, held: Collection[UUID]) -> set[UUID]:
        """Those that are still ours."""
        rows = fetch_all(self.conn, SQL["mine"], {"owner": self.owner, "held": list(held)})
        return {row["pipeline_id"] for row in rows}

    def renew(self, held: Collection[UUID]) -> set[UUID]:
        """The heartbeat: those whose lease is still ours."""
        params = {"owner": self.owner, "held": list(held), "seconds": self.seconds}
        return {row["pipeline_id"] for row in fetch_all(self.conn, SQL["renew"], params)}

    def prove(self, claim: Claim) -> None:
        """It got past what its last runner died of."""
        self._do("prove", claim)

    def let_go(self, claim: Claim) -> None:
        """Another runner goes on."""
        self._do("let_go", claim)

    def step_down(self, claim: Claim) -> None:
        """A run is due at once."""
        if not self._do("step_down", claim):
            raise LeaseLost(f"{claim.name!r} is no longer followed here")

    def bury(self, lost: Mapping[str, Any], reason: str) -> bool:
        """Nobody goes on; False if it was not silent after all."""
        params = {"pipeline_id": lost["id"], "owner_before": lost["owner"], "reason": storable(reason)}
        return fetch_one(self.conn, SQL["bury"], params) is not None

    def pass_over(self, moves: Sequence[Move]) -> set[UUID]:
        """Move these on; those that were."""
        params = {
            "ids": [move.id for move in moves],
            "epochs": [move.epoch for move in moves],
            "seqs": [move.seq for move in moves],
            "at_ids": [move.at_id for move in moves],
        }
        return {row["pipeline_id"] for row in fetch_all(self.conn, SQL["pass"], params)}

    def _do(self, name: str, claim: Claim) -> bool:
        params = {"pipeline_id": claim.pipeline_id, "owner": self.owner}
        with translated():
            return self.conn.execute(SQL[name], params).rowcount > 0


@dataclass(frozen=True)
class HourRepo:
    """The history's row of this hour, of one follower."""

    conn: Connection
    owner: UUID
    claim: Claim

    def add(self, counts: Counts, batches: int, bursts: int) -> tuple[int, bool]:
        """Bursts that it followed; the row's id, and whether it was begun here, which counts as a burst."""
        more = {"pipeline_id": self.claim.pipeline_id, "owner": self.owner, "version": self.claim.version}
        params = vars(counts) | {"batches": batches, "bursts": bursts} | more
        if row := fetch_one(self.conn, SQL["add_to_hour"], params):
            return int(row["id"]), False
        if row := fetch_one(self.conn, SQL["begin_hour"], params):
            return int(row["id"]), True
        raise LeaseLost(f"{self.claim.name!r} is no longer followed here")
