"""What the editor asks while one types: findings and where they are, columns, plan, first rows, tables to read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from vitrina.control.api.auth import Actor, Plane, Role, needs
from vitrina.control.console import fields
from vitrina.control.console.access import Form, Visitor
from vitrina.control.console.render import Show
from vitrina.control.plane import ControlPlane
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.plans import FoundOf, ddl, differences, follows_each, text_diff
from vitrina.control.services.requests import RequestService
from vitrina.control.services.sources import Sources
from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Code, Finding, refused
from vitrina.domain.pipeline import WAREHOUSE, Pipeline
from vitrina.domain.wording import Worded
from vitrina.meta.repos.pipelines import StoredPipeline
from vitrina.sql.describe import Column

router = APIRouter(prefix="/editor")
PREVIEW_ROWS = 20
DDL = (Code.WOULD_CREATE_TABLE, Code.WOULD_REBUILD_TABLE, Code.WOULD_ALTER_TABLE)
SHOWN_ELSEWHERE = (Code.GIVES, *DDL)  # as columns, and as DDL
VERDICTS: dict[Worded, str] = {  # of a live mart's tables: what a change of one refreshes
    Code.REFRESHES_KEYS: "the rows that carry it",
    Code.REFRESHES_PART: "a part of the mart",
    Code.REFRESHES_OWN: "what the pipeline says",
    Code.REFRESHES_EVERYTHING: "everything",
    Code.OLD_VALUE_UNTOLD: "everything",
}


@dataclass(frozen=True)
class Checked:
    """What is known about a configuration before it is saved."""

    pipeline: Pipeline | None
    findings: list[Finding]
    columns: list[Column] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """Why it cannot be saved."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def verdicts(self) -> list[tuple[Finding, str]]:
        """For each table of a live mart what a change of it means, in full and in brief."""
        return [(found, VERDICTS[found.code]) for found in self.findings if found.code in VERDICTS]

    @property
    def marks(self) -> list[dict[str, Any]]:
        """Where in the SELECT something is wrong."""
        placed = (f for f in self.findings if f.where == "source_query" and "at" in f.data)
        return [{"at": f.data["at"], "text": f.message, "level": f.level} for f in placed]

    def at(self, name: str) -> list[Finding]:
        """What there is to say at a field."""
        return [found for found in self.findings if found.where == name and found.level == "error"]


@router.post("/check")
@needs(Role.ADMIN)
def check(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """Findings, columns and plan of what stands in the form."""
    stored = stored_of(plane, caller, form)
    checked = _checked(plane, caller, form, stored)
    known: dict[str, Any] = {"checked": checked, "plan": _plan(checked, stored), "is_new": stored is None}
    names = [] if fields.WHOLE in form else [name for name in Pipeline.model_fields if name not in fields.NEVER]
    return show.part("editor_checked.html", **known, names=names, shown_elsewhere=(*SHOWN_ELSEWHERE, *VERDICTS))


@router.post("/preview")
@needs(Role.ADMIN)
def preview(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """The first rows of what stands in the form; nothing is written."""
    values, wrong = fields.read(form)
    try:
        if wrong:
            return show.part(
                "editor_preview.html", preview=None, wrong=f"{wrong[0].where}: {wrong[0].said_in(show.words)[0]}"
            )
        found = RequestService(plane, caller.name).preview_config(Pipeline.parse(given(values)), PREVIEW_ROWS)
    except VitrinaError as error:
        return show.part("editor_preview.html", preview=None, wrong=str(error))
    if "kind" in found:
        return show.part("editor_preview.html", preview=None, wrong="no runner has answered yet; is one running?")
    return show.part("editor_preview.html", preview=found, wrong="")


@router.get("/tables")
@needs(Role.ADMIN)
def tables(show: Show, plane: Plane, source: Annotated[str, Query(max_length=200)] = WAREHOUSE) -> Response:
    """What there is to read at a source, asked now."""
    places = Sources(plane)
    return show.part("editor_tables.html", answer=places.ask(places.get(source).name, tables=True), source=source)


def stored_of(plane: ControlPlane, caller: Actor, form: dict[str, list[str]]) -> StoredPipeline | None:
    """The pipeline that the form is an edit of."""
    which = (form.get("of") or [""])[0]
    return PipelineService(plane, caller.name).get(which) if which else None


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Without what is empty."""
    return {name: value for name, value in values.items() if value is not None}


def _checked(plane: ControlPlane, caller: Actor, form: dict[str, list[str]], stored: StoredPipeline | None) -> Checked:
    service = PipelineService(plane, caller.name)
    values, wrong = fields.read(form)
    own = {"id": stored.id} if stored else {}
    wrong += service.taken(str(values.get("name") or ""), _targets(values), stored.id if stored else None)
    try:
        pipeline = Pipeline.parse(given(values) | own)
    except VitrinaError as error:
        return Checked(None, [*wrong, refused("", error)])
    findings, columns = service.examine(pipeline)
    return Checked(pipeline, wrong + findings, columns)


def _targets(values: dict[str, Any]) -> list[str]:
    """Where it would write to: a plan's last task says so, if it says anything."""
    tasks = values.get("tasks")
    last = tasks[-1] if isinstance(tasks, Sequence) and tasks else None
    named = last.get("target_table") if isinstance(last, dict) else None
    several = values.get("targets")
    given = [named or values.get("target_table"), *(several if isinstance(several, Sequence) else ())]
    return [target for target in given if isinstance(target, str)]


def _plan(checked: Checked, stored: StoredPipeline | None) -> dict[str, Any]:
    """What saving would change, and what the next run would make of it."""
    if checked.pipeline is None or checked.errors:
        return {"fields": {}, "ddl": [], "follows": ""}
    config = stored.config if stored else None
    found = [FoundOf(finding.code, finding.data, finding.target) for finding in checked.findings]
    new = checked.pipeline.model_dump(mode="json")
    changed = {name: text_diff(*values) for name, values in differences(config, new)} if config else {}
    return {"fields": changed, "ddl": ddl(found), "follows": follows_each(checked.pipeline, config, found)}
