"""Pipelines: what may be done with them in which status, once for every surface."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Conflict, Invalid, NotFound, Stale
from vitrina.control.services.checks import CheckStanding, checks_of
from vitrina.control.services.freshness import Freshness, freshness
from vitrina.control.services.indexing import Served
from vitrina.control.services.validation import Validation
from vitrina.control.services.waiting import Waiting, waiting
from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.domain.findings import Code, Finding
from vitrina.domain.lifecycle import EDITABLE_UNDER_WAY, UNDER_WAY, Status
from vitrina.domain.pipeline import Pipeline, resolve, with_defaults
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.outages import OutageRepo
from vitrina.meta.repos.pipelines import PipelineRepo, StoredPipeline
from vitrina.meta.repos.runs import RunRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.meta.repos.upstream import UpstreamRepo, Writer
from vitrina.sql.describe import Column

EDIT_ATTEMPTS = 5


@dataclass(frozen=True)
class Answer:
    """What became of a request to run or to pause: the status then, whether anything was done, and what came before."""

    id: UUID
    name: str
    status: Status
    changed: bool
    after_run: int


@dataclass(frozen=True)
class Standing:
    """Where a pipeline stands, as of one moment."""

    stored: StoredPipeline
    last_run: DictRow | None
    live: Freshness | None  # of a live one: how fresh the mart is
    incidents: list[DictRow]  # what is wrong
    waits: Waiting | None
    checks: list[CheckStanding]


@dataclass(frozen=True)
class PipelineService:
    """Everything a caller may do with pipelines."""

    plane: ControlPlane
    actor: str

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    def page(self, limit: int, **filters: Any) -> tuple[list[StoredPipeline], str | None]:
        """One page by name, and where the next one starts."""
        with self.plane.session() as conn:
            found = EditingRepo(conn).page(limit=limit + 1, **filters)
        return found[:limit], found[limit - 1].name if len(found) > limit else None

    def labelled(self, label: str) -> list[str]:
        """The uuids of all with this label."""
        with self.plane.session() as conn:
            return [str(row["id"]) for row in EditingRepo(conn).labelled([label])]

    def get(self, which: str) -> StoredPipeline:
        """By uuid or name."""
        with self.plane.session() as conn:
            return _find(conn, which)

    def status(self, which: str) -> Standing:
        """Where it stands."""
        with self.plane.snapshot() as conn:
            stored = _find(conn, which)
            runs = RunRepo(conn).recent(stored.id, 1)
            live = freshness(conn, [stored.id])
            incidents, waits = AlertRepo(conn).incidents([stored.id]), waiting(conn, [stored.id])
            checks = checks_of(conn, stored)
        return Standing(stored, next(iter(runs), None), live.get(stored.id), incidents, waits.get(stored.id), checks)

    def waiting(self, pipelines: Sequence[StoredPipeline]) -> dict[UUID, Waiting]:
        """What those of them wait for that do."""
        with self.plane.session() as conn:
            return waiting(conn, [stored.id for stored in pipelines])

    def freshness(self, pipelines: Sequence[StoredPipeline]) -> dict[UUID, Freshness]:
        """Of those that are live."""
        if not any(stored.config.get("mode") == "live" for stored in pipelines):
            return {}
        with self.plane.snapshot() as conn:
            return freshness(conn, [stored.id for stored in pipelines])

    def validate(self, which: str) -> list[Finding]:
        """Findings about a stored pipeline, against its source and its mart as they are now."""
        return self.findings(_parse(self.get(which).config))

    def findings(self, pipeline: Pipeline, *, reads: bool = True) -> list[Finding]:
        """Findings about a configuration, stored or not; those about its rows are data of the source."""
        return replace(self._validation(), reads=reads).of(pipeline)

    def examine(self, pipeline: Pipeline) -> tuple[list[Finding], list[Column]]:
        """The same, with the columns that would reach the mart; none if they cannot be known."""
        validation = self._validation()
        return validation.of(pipeline), validation.columns

    def state(self, which: str) -> DictRow:
        """The checkpoint row."""
        with self.plane.session() as conn:
            row = StateRepo(conn).get(_find(conn, which).id)
        if row is None:
            raise NotFound(f"pipeline {which!r} is gone")
        return row

    def runs(self, which: str, limit: int, before: int | None = None) -> tuple[list[DictRow], int | None]:
        """One page of its runs, newest first, and where the next one starts."""
        with self.plane.session() as conn:
            found = RunRepo(conn).page(_find(conn, which).id, limit + 1, before)
        return found[:limit], found[limit - 1]["id"] if len(found) > limit else None

    def versions(self, which: str, limit: int = 50) -> list[DictRow]:
        """Its configuration over time."""
        with self.plane.session() as conn:
            return EditingRepo(conn).versions(_find(conn, which).id, limit)

    def version(self, which: str, version: int) -> DictRow:
        """Its configuration as it was."""
        with self.plane.session() as conn:
            stored = _find(conn, which)
            found = EditingRepo(conn).version(stored.id, version)
        if found is None:
            raise NotFound(f"pipeline {stored.name!r} has no version {version}")
        return found

    def taken(self, name: str, target: str | None, but: UUID | None) -> Iterator[Finding]:
        """What of a pipeline's name and target another has, besides the one that it is."""
        with self.plane.session() as conn:
            holders = EditingRepo(conn).holders(name, target, but)
        for holder in holders:
            if holder["name"] == name:
                yield Finding("error", "name", Code.TAKEN, {"value": name, "holder": name})
            if target and holder["target"] == target:
                yield Finding("error", "target_table", Code.TAKEN, {"value": target, "holder": holder["name"]})

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, pipeline: Pipeline) -> tuple[StoredPipeline, list[Finding]]:
        """Store a new pipeline; what validation calls an error is refused."""
        checked = self._require_valid(pipeline)
        with _explained(pipeline), self.plane.transaction(self.actor) as conn:
            PipelineRepo(conn).add(pipeline)
            _keep_reads(conn, pipeline, checked)
            self._audit(conn, "create", pipeline.id, {"name": pipeline.name})
        return self.get(str(pipeline.id)), checked.findings

    def patch(self, which: str, changes: dict[str, Any], if_match: int | None) -> tuple[StoredPipeline, list[Finding]]:
        """Change some fields; while it runs, only those that do not touch the run. None: back to the default."""
        for _ in range(EDIT_ATTEMPTS):
            before = self.get(which)
            _check_version(before, if_match)
            pipeline = _parse(_merged(before.config, changes))
            changed = _changed(before.config, pipeline)
            _check_status(before, changed)
            checked = self._require_valid(pipeline) if changed - EDITABLE_UNDER_WAY else None
            if self._replace(before, pipeline, changed, checked):
                return self.get(str(before.id)), checked.findings if checked else []
        raise Conflict(f"pipeline {which!r} is being edited by others", "try again")

    def _replace(
        self, before: StoredPipeline, pipeline: Pipeline, changed: set[str], checked: Validation | None
    ) -> bool:
        """False: somebody else was faster, and what we checked is no longer what is stored."""
        with _explained(pipeline), self.plane.transaction(self.actor) as conn:
            stored = _locked(conn, str(before.id))
            if stored.version != before.version:
                return False
            _check_status(stored, changed)
            if changed:
                EditingRepo(conn).replace(pipeline)
                if checked:
                    _keep_reads(conn, pipeline, checked)
                self._audit(conn, "edit", stored.id, {"fields": sorted(changed)})
        return True

    def delete(self, which: str) -> None:
        """Forget it and its history; the mart stays."""
        with self.plane.transaction(self.actor) as conn:
            stored = _locked(conn, which)
            if not EditingRepo(conn).delete(stored.id):
                raise Conflict(f"pipeline {stored.name!r} is {stored.status}", "pause it, wait for PAUSED, then delete")
            self._audit(conn, "delete", stored.id, {"name": stored.name})

    def set_enabled(self, which: str, enabled: bool) -> StoredPipeline:
        """Let runners take it, or not; a run that is under way ends as it would."""
        with self.plane.transaction(self.actor) as conn:
            stored = _locked(conn, which)
            if EditingRepo(conn).set_enabled(stored.id, enabled):
                self._audit(conn, "enable" if enabled else "disable", stored.id, {})
        return self.get(str(stored.id))

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, which: str, options: RunOptions, key: str | None = None) -> Answer:
        """Ask for a run. A key that was used before gets the answer that it got then."""
        with self.plane.transaction(self.actor) as conn:
            stored, repo = _locked(conn, which), EditingRepo(conn)
            if key and (answered := repo.remembered(key)):
                return _replay(key, answered, stored, options)
            if not stored.enabled:
                raise Conflict(f"pipeline {stored.name!r} is disabled", "enable it first")
            changed = PipelineRepo(conn).request_run(stored.id, options) or OutageRepo(conn).hurry(stored.id, options)
            if changed:
                self._audit(conn, "run", stored.id, _asked(options))
            answer = _answer(conn, stored, changed)
            if key and not repo.remember(key, stored.id, _kept(answer, options)):
                raise _reused(key)
            return answer

    def pause(self, which: str, *, now: bool = False) -> Answer:
        """Ask for a pause; `now`: statements under way are cancelled, and what they did is not kept."""
        with self.plane.transaction(self.actor) as conn:
            stored = _locked(conn, which)
            if stored.status == Status.FAILED:
                raise Conflict(f"pipeline {stored.name!r} has FAILED: there is nothing to pause", "run it again")
            changed = PipelineRepo(conn).request_pause(stored.id, now=now)
            if changed:
                self._audit(conn, "pause", stored.id, {"now": True} if now else {})
            return _answer(conn, stored, changed)

    def resume(self, which: str) -> Answer | None:
        """Ask for a run of what is paused, or asked to pause; what is not is left alone."""
        if self.get(which).status not in (Status.PAUSED, Status.PAUSE_REQUESTED):
            return None
        return self.run(which, RunOptions())

    def reload_config(self, which: str) -> int:
        """Let the running run take the present configuration at its next batch."""
        with self.plane.transaction(self.actor) as conn:
            stored = _locked(conn, which)
            version = EditingRepo(conn).reload(stored.id)
            if version is None:
                raise Conflict(
                    f"pipeline {stored.name!r} is {stored.status}, and no run is under way",
                    "run it: a new run takes the present version anyway",
                )
            self._audit(conn, "reload-config", stored.id, {"version": version})
        return version

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────

    def _validation(self) -> Validation:
        return Validation(self.plane.connections, self._served, self._captured, self._written, self._above)

    def _served(self, pipeline_id: UUID) -> Served | None:
        with self.plane.session() as conn:
            return Served.find(conn, pipeline_id)

    def _written(self, pipeline_id: UUID, target: str) -> dict[str, str]:
        with self.plane.session() as conn:
            return StateRepo(conn).written(pipeline_id, target)

    def _above(self, relations: Sequence[str]) -> Sequence[Writer]:
        with self.plane.session() as conn:
            return UpstreamRepo(conn).above(relations)

    def _captured(self, source: str) -> Capture | None:
        with self.plane.session() as conn:
            return CaptureRepo(conn).find(source)

    def _require_valid(self, pipeline: Pipeline) -> Validation:
        checked = self._validation()
        findings = checked.of(pipeline)
        errors = [finding for finding in findings if finding.level == "error"]
        if errors:
            raise Invalid(f"pipeline {pipeline.name!r} is not valid: {errors[0].message}", errors[0].remedy, findings)
        return checked

    def _audit(self, conn: Connection, action: str, pipeline_id: UUID, details: dict[str, Any]) -> None:
        EditingRepo(conn).audit(self.actor, action, pipeline_id, details)


@contextmanager
def _explained(pipeline: Pipeline) -> Iterator[None]:
    """What the meta-store refuses, some of it only at COMMIT, in the words of the rule that it keeps."""
    try:
        yield
    except (RetryableError, ConfigError) as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        constraint = error.__cause__.diag.constraint_name or ""
        raise Conflict(_rule(constraint, pipeline), "choose another") from error


def _rule(constraint: str, pipeline: Pipeline) -> str:
    if "target" in constraint:
        return f"another pipeline writes to {resolve(pipeline).target!r} already"
    if "name" in constraint:
        return f"there is a pipeline {pipeline.name!r} already"
    return f"there is a pipeline with id {pipeline.id} already"


def _keep_reads(conn: Connection, pipeline: Pipeline, checked: Validation) -> None:
    UpstreamRepo(conn).save(pipeline.id, resolve(pipeline).target, checked.relations)


def _find(conn: Connection, which: str) -> StoredPipeline:
    try:
        return PipelineRepo(conn).get(which)
    except ConfigError as error:
        raise NotFound(error.message) from error


def _locked(conn: Connection, which: str) -> StoredPipeline:
    stored = EditingRepo(conn).lock(which)
    if stored is None:
        raise NotFound(f"there is no pipeline {which!r}")
    return stored


def _answer(conn: Connection, stored: StoredPipeline, changed: bool) -> Answer:
    """While the pipeline is locked: no run can begin or end meanwhile."""
    status, after = _find(conn, str(stored.id)).status, RunRepo(conn).before_request(stored.id)
    return Answer(stored.id, stored.name, status, changed, after)


def _parse(values: dict[str, Any]) -> Pipeline:
    try:
        return Pipeline.parse(values)
    except VitrinaError as error:
        raise Invalid(error.message, error.remedy) from error


def _merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    cleared = {name for name, value in changes.items() if value is None}
    return {name: value for name, value in (config | changes).items() if name not in cleared}


def _check_version(stored: StoredPipeline, expected: int | None) -> None:
    if expected is not None and stored.version != expected:
        raise Stale(
            f"pipeline {stored.name!r} is at version {stored.version}, your edit was made from version {expected}",
            "read it again, then edit",
        )


def _changed(config: dict[str, Any], pipeline: Pipeline) -> set[str]:
    """What a configuration leaves out has its default."""
    before = with_defaults(config)
    return {name for name, value in pipeline.model_dump(mode="json").items() if before.get(name) != value}


def _check_status(stored: StoredPipeline, changed: set[str]) -> None:
    locked = sorted(changed - EDITABLE_UNDER_WAY)
    if stored.status in UNDER_WAY and locked:
        raise Conflict(
            f"{', '.join(locked)} cannot be changed while pipeline {stored.name!r} is {stored.status}",
            "pause it, wait for PAUSED, then edit",
        )


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
