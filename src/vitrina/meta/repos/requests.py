"""Requests that are no runs: asked, claimed by a runner, renewed while it works, answered."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from vitrina.domain.errors import LeaseLost
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries
from vitrina.meta.repos.leases import error_columns

SQL = queries("requests")


@dataclass(frozen=True)
class RequestClaim:
    """A request in our hands, with the pipeline it is about as it stood when it was claimed."""

    id: UUID
    kind: str
    pipeline_id: UUID | None
    params: dict[str, Any]
    owner: UUID
    attempt: int
    name: str | None
    version: int | None
    pipeline_status: str | None
    config: dict[str, Any] | None

    @property
    def token(self) -> tuple[UUID, int]:
        """What tells this claim from an earlier one of the same request, even by the same process."""
        return self.id, self.attempt


@dataclass(frozen=True)
class RequestRepo:
    """Table `etl_requests`."""

    conn: Connection

    def ask(self, kind: str, pipeline_id: UUID | None, params: dict[str, Any], asked_by: str | None = None) -> UUID:
        """Put a request; a ConfigError when there is no such pipeline or kind."""
        values = {"kind": kind, "pipeline_id": pipeline_id, "params": Jsonb(params), "asked_by": asked_by}
        row = fetch_one(self.conn, SQL["ask"], values)
        assert row is not None
        return UUID(str(row["id"]))

    def get(self, request_id: UUID) -> DictRow | None:
        """One request, the whole row."""
        return fetch_one(self.conn, SQL["get"], {"id": request_id})

    def latest(self, pipeline_id: UUID, kind: str) -> DictRow | None:
        """The last one of a kind, whatever became of it."""
        return fetch_one(self.conn, SQL["latest"], {"pipeline_id": pipeline_id, "kind": kind})

    def report(self, pipeline_id: UUID, kind: str) -> DictRow | None:
        """The last one that was answered: what pruning keeps."""
        return fetch_one(self.conn, SQL["report"], {"pipeline_id": pipeline_id, "kind": kind})

    def claim(
        self, owner: UUID, runner: str, seconds: float, kinds: Sequence[str], attempts: int
    ) -> RequestClaim | None:
        """The oldest open request of these kinds that was taken fewer than `attempts` times; None: there is none."""
        params = {"owner": owner, "runner": runner, "seconds": seconds, "kinds": list(kinds), "attempts": attempts}
        row = fetch_one(self.conn, SQL["claim"], params)
        return RequestClaim(**row) if row else None

    def bury(self, attempts: int) -> list[UUID]:
        """Fail those that lost their runner `attempts` times."""
        return [row["id"] for row in fetch_all(self.conn, SQL["bury"], {"attempts": attempts})]

    def renew(self, owner: UUID, seconds: float, tokens: Collection[tuple[UUID, int]]) -> set[tuple[UUID, int]]:
        """The heartbeat: the claims that are still ours."""
        ids, attempts = [token[0] for token in tokens], [token[1] for token in tokens]
        params = {"owner": owner, "seconds": seconds, "ids": ids, "attempts": attempts}
        return {(row["id"], row["attempt"]) for row in fetch_all(self.conn, SQL["renew"], params)}

    def hold(self, claim: RequestClaim) -> None:
        """A LeaseLost if another runner has it."""
        self._leave("hold", claim)

    def finish(self, claim: RequestClaim, result: dict[str, Any]) -> None:
        """Answered."""
        self._leave("finish", claim, result=Jsonb(result))

    def fail(self, claim: RequestClaim, error: str, remedy: str = "") -> None:
        """Answered: it cannot be done, and why."""
        self._leave("fail", claim, **error_columns(error, remedy))

    def give_back(self, claim: RequestClaim) -> None:
        """This runner ends; another answers."""
        self._leave("give_back", claim)

    def let_go(self, claim: RequestClaim) -> None:
        """A database was lost under it; the attempt is spent."""
        self._leave("let_go", claim)

    def _leave(self, transition: str, claim: RequestClaim, **more: Any) -> None:
        params = {"id": claim.id, "owner": claim.owner, "attempt": claim.attempt} | more
        if fetch_one(self.conn, SQL[transition], params) is None:
            raise LeaseLost(f"request {claim.id} is in other hands, or gone")
