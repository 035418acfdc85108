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
from vitrina.control.services.answers import Answer as Answer
from vitrina.control.services.answers import Asking
from vitrina.control.services.checks import CheckStanding, checks_of
from vitrina.control.services.freshness import Freshness, freshness
from vitrina.control.services.indexing import Served
from vitrina.control.services.targets import (
    audited,
    forget,
    lock,
    lock_whole,
    refuse_member,
    require_editable,
    require_one,
    write,
)
from vitrina.control.services.validation import Validation
from vitrina.control.services.waiting import Waiting, waiting
from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.domain.findings import Code, Finding
from vitrina.domain.lifecycle import EDITABLE_UNDER_WAY, Status
from vitrina.domain.pipeline import Pipeline, members, resolve, with_defaults
from vitrina.domain.run import RunOptions
from vitrina.meta.db import Connection
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.pipelines import Member, PipelineRepo, StoredPipeline
from vitrina.meta.repos.runs import RunRepo
from vitrina.meta.repos.state import StateRepo
from vitrina.meta.repos.upstream import UpstreamRepo, Writer
from vitrina.sql.describe import Column

EDIT_ATTEMPTS = 5
RESTING = (Status.PAUSED, Status.PAUSE_REQUESTED)


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
            row = StateRepo(conn).get(require_one(_find(conn, which)).id)
        if row is None:
            raise NotFound(f"pipeline {which!r} is gone")
        return row

    def runs(self, which: str, limit: int, before: int | None = None) -> tuple[list[DictRow], int | None]:
        """One page of its runs, newest first, and where the next one starts."""
        with self.plane.session() as conn:
            found = RunRepo(conn).page(require_one(_find(conn, which)).id, limit + 1, before)
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

    def taken(self, name: str, targets: Sequence[str], but: UUID | None) -> Iterator[Finding]:
        """What of a pipeline's name and targets another has, besides the one that it is."""
        where = "targets" if len(targets) > 1 else "target_table"
        with self.plane.session() as conn:
            holders = EditingRepo(conn).holders(name, targets, but)
        for holder in holders:
            if holder["name"] == name:
                yield Finding("error", "name", Code.TAKEN, {"value": name, "holder": name})
            if holder["target"] in targets:
                yield Finding("error", where, Code.TAKEN, {"value": holder["target"], "holder": holder["name"]})

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, pipeline: Pipeline) -> tuple[StoredPipeline, list[Finding]]:
        """Store a new pipeline; what validation calls an error is refused."""
        _check_whose(pipeline, None)
        checked = self._require_valid(pipeline)
        with _explained(pipeline), self.plane.transaction(self.actor) as conn:
            PipelineRepo(conn).add(pipeline)
            _keep_reads(conn, pipeline, checked)
            self._audit(conn, "create", pipeline.id, {"name": pipeline.name} | audited(pipeline))
        return self.get(str(pipeline.id)), checked.findings

    def patch(self, which: str, changes: dict[str, Any], if_match: int | None) -> tuple[StoredPipeline, list[Finding]]:
        """Change some fields; while it runs, only those that do not touch the run. None: back to the default."""
        for _ in range(EDIT_ATTEMPTS):
            before = self.get(which)
            _check_version(before, if_match)
            pipeline = _parse(_merged(before.config, changes))
            _check_whose(pipeline, before.part_of)
            changed = _changed(before.config, pipeline)
            require_editable(before, changed, pipeline)
            checked = self._require_valid(pipeline) if changed - EDITABLE_UNDER_WAY else None
            if kept := self._replace(before, pipeline, changed, checked):
                return self.get(str(kept)), checked.findings if checked else []
        raise Conflict(f"pipeline {which!r} is being edited by others", "try again")

    def _replace(
        self, before: StoredPipeline, pipeline: Pipeline, changed: set[str], checked: Validation | None
    ) -> UUID | None:
        """Which it is then. None: somebody else was faster, and what we checked is no longer what is stored."""
        with _explained(pipeline), self.plane.transaction(self.actor) as conn:
            stored = lock_whole(conn, str(before.id))
            if stored.version != before.version:
                return None
            refuse_member(conn, stored)
            require_editable(stored, changed, pipeline)
            if not changed:
                return stored.id
            kept = write(conn, stored, pipeline)
            if checked:
                _keep_reads(conn, pipeline.model_copy(update={"id": kept}), checked)
            self._audit(conn, "edit", kept, {"fields": sorted(changed)})
        return kept

    def delete(self, which: str) -> None:
        """Forget it and its history; the mart stays."""
        with self.plane.transaction(self.actor) as conn:
            stored = lock_whole(conn, which)
            refuse_member(conn, stored)
            forget(conn, stored)
            self._audit(conn, "delete", stored.id, {"name": stored.name})

    def set_enabled(self, which: str, enabled: bool) -> StoredPipeline:
        """Let runners take it, or not; a run that is under way ends as it would."""
        with self.plane.transaction(self.actor) as conn:
            stored = lock(conn, which)
            refuse_member(conn, stored)
            if EditingRepo(conn).set_enabled(stored.id, enabled):
                self._audit(conn, "enable" if enabled else "disable", stored.id, {})
        return self.get(str(stored.id))

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, which: str, options: RunOptions, key: str | None = None) -> Answer:
        """Ask for a run, of every target if there are several. A key that was used before gets the answer of then."""
        with self.plane.transaction(self.actor) as conn:
            return Asking(conn, self.actor).run(lock(conn, which), options, key)

    def pause(self, which: str, *, now: bool = False) -> Answer:
        """Ask for a pause; `now`: statements under way are cancelled, and what they did is not kept."""
        with self.plane.transaction(self.actor) as conn:
            return Asking(conn, self.actor).pause(lock(conn, which), now=now)

    def resume(self, which: str) -> Answer | None:
        """Ask for a run of what is paused, or asked to pause; what is not is left alone."""
        stored = self.get(which)
        if stored.members:
            return self._resume_each(stored)
        if stored.status not in RESTING:
            return None
        return self.run(which, RunOptions())

    def _resume_each(self, stored: StoredPipeline) -> Answer | None:
        resting = tuple(member for member in stored.members if member.status in RESTING)
        if not resting:
            return None
        with self.plane.transaction(self.actor) as conn:
            return Asking(conn, self.actor).run(replace(stored, members=resting), RunOptions(), None)

    def reload_config(self, which: str) -> int:
        """Let the running run take the present configuration at its next batch."""
        with self.plane.transaction(self.actor) as conn:
            stored = lock(conn, which)
            reloaded = [EditingRepo(conn).reload(each.id) for each in stored.members or [stored]]
            version = max((each for each in reloaded if each), default=None)
            if version is None:
                raise Conflict(
                    f"pipeline {stored.name!r} is {stored.status}, and no run is under way",
                    "run it: a new run takes the present version anyway",
                )
            self._audit(conn, "reload-config", stored.id, {"version": version})
        return version

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────

    def _validation(self) -> Validation:
        asked = self._served, self._captured, self._written, self._above, self._members
        return Validation(self.plane.connections, *asked)

    def _members(self, pipeline_id: UUID) -> Sequence[Member]:
        with self.plane.session() as conn:
            try:
                return PipelineRepo(conn).get(pipeline_id).members
            except ConfigError:
                return ()

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
        wanted = " or ".join(repr(str(member.target_table)) for member in members(pipeline))
        return f"another pipeline writes to {wanted} already"
    if "name" in constraint:
        return f"there is a pipeline {pipeline.name!r} already"
    return f"there is a pipeline with id {pipeline.id} already"


def _keep_reads(conn: Connection, pipeline: Pipeline, checked: Validation) -> None:
    """Of several targets each run keeps them."""
    if pipeline.targets:
        return
    UpstreamRepo(conn).save(pipeline.id, resolve(pipeline).target, checked.relations)


def _find(conn: Connection, which: str) -> StoredPipeline:
    try:
        return PipelineRepo(conn).get(which)
    except ConfigError as error:
        raise NotFound.like(error) from error


def _parse(values: dict[str, Any]) -> Pipeline:
    try:
        return Pipeline.parse(values)
    except VitrinaError as error:
        raise Invalid.like(error) from error


def _merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    cleared = {name for name, value in changes.items() if value is None}
    return {name: value for name, value in (config | changes).items() if name not in cleared}


def _check_version(stored: StoredPipeline, expected: int | None) -> None:
    if expected is not None and stored.version != expected:
        raise Stale(
            f"pipeline {stored.name!r} is at version {stored.version}, your edit was made from version {expected}",
            "read it again, then edit",
        )


def _check_whose(pipeline: Pipeline, part_of: UUID | None) -> None:
    if pipeline.part_of != part_of:
        raise Invalid("part_of is not to be set", "name the target in the targets of the pipeline that is to have it")


def _changed(config: dict[str, Any], pipeline: Pipeline) -> set[str]:
    """What a configuration leaves out has its default."""
    before = with_defaults(config)
    return {name for name, value in pipeline.model_dump(mode="json").items() if before.get(name) != value}
