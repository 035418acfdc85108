"""Pipelines of several targets: what is asked of one is asked of each target, and an edit says which stay."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import UUID, uuid4

from vitrina.control.problems import Conflict, NotFound
from vitrina.domain.findings import Finding
from vitrina.domain.lifecycle import EDITABLE_UNDER_WAY, UNDER_WAY
from vitrina.domain.pipeline import Pipeline, members
from vitrina.meta.db import Connection, queries, translated
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.pipelines import Member, PipelineRepo, StoredPipeline

SQL = queries("targets")


def refuse_member(conn: Connection, stored: StoredPipeline) -> None:
    """What is one of several targets is edited with the others."""
    if stored.part_of:
        whole = PipelineRepo(conn).get(stored.part_of).name
        raise Conflict(f"{stored.name!r} is one of the targets of pipeline {whole!r}", f"change {whole!r} instead")


def require_one(stored: StoredPipeline) -> StoredPipeline:
    """A Conflict for a pipeline of several targets: what is asked can be asked of one."""
    if stored.members:
        named = ", ".join(member.name for member in stored.members)
        raise Conflict(f"pipeline {stored.name!r} has several targets", f"name one of them: {named}")
    return stored


def lock(conn: Connection, which: str) -> StoredPipeline:
    """By uuid or name, until the transaction ends."""
    stored = EditingRepo(conn).lock(which)
    if stored is None:
        raise NotFound(f"there is no pipeline {which!r}")
    return stored


def lock_whole(conn: Connection, which: str) -> StoredPipeline:
    """And each of its targets, as they stand once nobody claims one."""
    stored = lock(conn, which)
    if not stored.members:
        return stored
    for member in PipelineRepo(conn).get(stored.id).members:
        EditingRepo(conn).lock(str(member.id))
    return PipelineRepo(conn).get(stored.id)


def require_editable(stored: StoredPipeline, changed: set[str], wanted: Pipeline) -> None:
    """A Conflict for fields that are not changed while what they are of is under way."""
    locked = ", ".join(sorted(changed - EDITABLE_UNDER_WAY))
    if stored.members:
        if busy := ", ".join(member.name for member in _in_the_way(stored, changed, wanted.targets)):
            raise Conflict(f"{locked} cannot be changed while {busy} is under way", "pause it first")
    elif stored.status in UNDER_WAY and locked:
        raise Conflict(
            f"{locked} cannot be changed while pipeline {stored.name!r} is {stored.status}",
            "pause it, wait for PAUSED, then edit",
        )


def _in_the_way(stored: StoredPipeline, changed: Iterable[str], wanted: Sequence[str]) -> list[Member]:
    """The targets that are under way, and concerned: all of them, or those that are to go."""
    busy = [member for member in stored.members if member.status in UNDER_WAY]
    if set(changed) - EDITABLE_UNDER_WAY - {"targets"}:
        return busy
    return [member for member in busy if member.target not in wanted]


def each_found(pipeline: Pipeline, find: Callable[[Pipeline], Sequence[Finding]]) -> list[Finding]:
    """What is found about each target: what is true of all once, the rest with whose it is."""
    found = {str(member.target_table): find(member) for member in members(pipeline)}
    common = [finding for finding in next(iter(found.values())) if all(finding in each for each in found.values())]
    own = [finding.about(target) for target, each in found.items() for finding in each if finding not in common]
    return [*common, *own]


def as_stored(pipeline: Pipeline, stored: Sequence[Member]) -> Pipeline:
    """One target, as the pipeline that it has already, if it has."""
    ids = {member.target: member.id for member in stored}
    return pipeline.model_copy(update={"id": ids.get(str(pipeline.target_table), uuid4())})


def _divide(conn: Connection, stored: StoredPipeline, pipeline: Pipeline) -> UUID:
    """From one target to several. The pipeline that there was keeps that target, with all that it has done; a new one
    takes its name."""
    if stored.target is None:
        raise Conflict(f"pipeline {stored.name!r} has no target that could be one of several", "set target_table first")
    if stored.target not in pipeline.targets:
        raise Conflict(f"{stored.target} is not among the targets", "name it too; then remove it by another edit")
    whole = pipeline.model_copy(update={"id": uuid4()})
    with translated():
        conn.execute(SQL["rename"], {"id": stored.id, "name": f"{stored.name}@{stored.target}"})
        PipelineRepo(conn).add(whole)
        conn.execute(SQL["join"], {"id": stored.id, "whole": whole.id, "target": stored.target})
    return whole.id


def _unite(conn: Connection, stored: StoredPipeline, pipeline: Pipeline) -> UUID:
    """From several targets to one of them: its pipeline goes on under the name of all."""
    kept = next((member for member in stored.members if member.target == pipeline.target_table), None)
    if kept is None:
        raise Conflict(f"{pipeline.target_table} is none of the targets of {stored.name!r}", "name one of them")
    with translated():
        conn.execute(SQL["leave"], {"id": kept.id})
    if not EditingRepo(conn).delete(stored.id):
        raise Conflict(f"a target of {stored.name!r} is under way", "pause it first")
    EditingRepo(conn).replace(pipeline.model_copy(update={"id": kept.id}))
    return kept.id


def write(conn: Connection, stored: StoredPipeline, pipeline: Pipeline) -> UUID:
    """Every field anew; which pipeline has its name then."""
    if pipeline.targets and not stored.members:
        return _divide(conn, stored, pipeline)
    if stored.members and not pipeline.targets:
        return _unite(conn, stored, pipeline)
    EditingRepo(conn).replace(pipeline)
    return stored.id


def forget(conn: Connection, stored: StoredPipeline) -> None:
    """With all of its targets; a Conflict if one is under way."""
    busy = [each for each in stored.members or [stored] if each.status in UNDER_WAY]
    if busy or not EditingRepo(conn).delete(stored.id):
        named = next(iter(busy), stored)
        raise Conflict(f"pipeline {named.name!r} is {named.status}", "pause it, wait for PAUSED, then delete")


def audited(pipeline: Pipeline) -> dict[str, Any]:
    """For the audit."""
    return {"targets": list(pipeline.targets)} if pipeline.targets else {}
