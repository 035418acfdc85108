"""Asking for a run or a pause, of one pipeline whose row is locked, or of every target of one that has several."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.control.problems import Conflict
from vitrina.domain.lifecycle import Status
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.outages import OutageRepo
from vitrina.meta.repos.pipelines import PipelineRepo, StoredPipeline
from vitrina.meta.repos.runs import RunRepo


@dataclass(frozen=True)
class Answer:
    """What became of a request to run or to pause: the status then, whether anything was done, and what came before."""

    id: UUID
    name: str
    status: Status
    changed: bool
    after_run: int
    members: Sequence["Answer"] = ()  # of several targets: each one's


@dataclass(frozen=True)
class Asking:
    """In the caller's transaction."""

    conn: Connection
    actor: str

    def of_each(self, stored: StoredPipeline, ask: Callable[[StoredPipeline], Answer]) -> Answer:
        """Of every target at once, so that they are due at the same moment."""
        answers = [ask(found) for member in stored.members if (found := EditingRepo(self.conn).lock(str(member.id)))]
        status = PipelineRepo(self.conn).get(stored.id).status
        changed = any(answer.changed for answer in answers)
        last = max((answer.after_run for answer in answers), default=0)
        return Answer(stored.id, stored.name, status, changed, last, answers)

    def run(self, stored: StoredPipeline, options: RunOptions, key: str | None) -> Answer:
        """A key that was used before gets the answer that it got then."""
        if stored.members:
            return self.of_each(stored, lambda each: self.run(each, options, f"{key} {each.target}" if key else None))
        repo = EditingRepo(self.conn)
        if key and (answered := repo.remembered(key)):
            return _replay(key, answered, stored, options)
        if not stored.enabled:
            raise Conflict(f"pipeline {stored.name!r} is disabled", "enable it first")
        changed = PipelineRepo(self.conn).request_run(stored.id, options)
        changed = changed or OutageRepo(self.conn).hurry(stored.id, options)
        if not changed:
            PipelineRepo(self.conn).ask_again(stored.id)
        if changed:
            repo.audit(self.actor, "run", stored.id, _asked(options))
        answer = self._answer(stored, changed)
        if key and not repo.remember(key, stored.id, _kept(answer, options)):
            raise _reused(key)
        return answer

    def pause(self, stored: StoredPipeline, *, now: bool) -> Answer:
        """`now`: statements under way are cancelled, and what they did is not kept."""
        if stored.members and any(member.status != Status.FAILED for member in stored.members):
            return self.of_each(stored, lambda each: self._pause(each, now=now))
        if stored.status == Status.FAILED:
            raise Conflict(f"pipeline {stored.name!r} has FAILED: there is nothing to pause", "run it again")
        return self._pause(stored, now=now)

    def _pause(self, stored: StoredPipeline, *, now: bool) -> Answer:
        changed = PipelineRepo(self.conn).request_pause(stored.id, now=now)
        if changed:
            EditingRepo(self.conn).audit(self.actor, "pause", stored.id, {"now": True} if now else {})
        return self._answer(stored, changed)

    def _answer(self, stored: StoredPipeline, changed: bool) -> Answer:
        """While the pipeline is locked: no run can begin or end meanwhile."""
        status, after = PipelineRepo(self.conn).get(stored.id).status, RunRepo(self.conn).before_request(stored.id)
        return Answer(stored.id, stored.name, status, changed, after)


def _asked(options: RunOptions) -> dict[str, bool]:
    return {name: value for name, value in vars(options).items() if value}


def _kept(answer: Answer, options: RunOptions) -> dict[str, Any]:
    kept = {"status": answer.status, "changed": answer.changed, "after_run": answer.after_run}
    return kept | {"options": _asked(options)}


def _replay(key: str, answered: DictRow, stored: StoredPipeline, options: RunOptions) -> Answer:
    """The answer of the first time; the key must stand for the same request."""
    said = answered["answer"]
    if answered["pipeline_id"] != stored.id or said["options"] != _asked(options):
        raise _reused(key)
    return Answer(stored.id, stored.name, Status(said["status"]), said["changed"], said["after_run"])


def _reused(key: str) -> Conflict:
    return Conflict(f"Idempotency-Key {key!r} was used for another request", "use a new key")
