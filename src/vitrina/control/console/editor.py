"""The editor: findings, columns and the plan as one types, a preview of the first rows, and stale edits refused."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from vitrina.control.api.auth import Actor, Plane, Role, needs
from vitrina.control.console import fields
from vitrina.control.console.access import Form, Visitor
from vitrina.control.console.render import Screen, Show, link_to
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Problem, Stale
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.plans import ddl, differences, follows, text_diff
from vitrina.control.services.requests import RequestService
from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Code, Finding, refusal
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.pipelines import StoredPipeline
from vitrina.sql.describe import Column

router = APIRouter()
PREVIEW_ROWS = 20
SHOWN_ELSEWHERE = (Code.GIVES, Code.WOULD_CREATE_TABLE, Code.WOULD_ALTER_TABLE)  # as columns, and as DDL
NEW = {
    "source_query": "SELECT f.id AS film_id, f.title\nFROM content.film_work f\n",
    "key": ["film_id"],
    "target_table": "analytics.",
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


@router.get("/new")
@needs(Role.ADMIN)
def new(show: Show) -> Response:
    """An empty form, with something to begin from."""
    return _editor(show, None, fields.form_fields(NEW))


@router.post("/new")
@needs(Role.ADMIN)
def create(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """Store it, or say why not."""
    values, wrong = fields.read(form)
    try:
        if wrong:
            return _editor(show, None, fields.shown(form), 422, findings=wrong)
        stored, _ = PipelineService(plane, caller.name).create(Pipeline.parse(_given(values)))
    except VitrinaError as error:
        return _refused(show, None, form, error)
    return RedirectResponse(link_to(stored.name, stored.id), 303)


@router.get("/pipelines/{which}/edit")
@needs(Role.ADMIN)
def edit(show: Show, plane: Plane, caller: Visitor, which: str) -> Response:
    """The form, with what is stored."""
    stored = PipelineService(plane, caller.name).get(which)
    return _editor(show, stored, fields.form_fields(stored.config))


@router.post("/pipelines/{which}/edit")
@needs(Role.ADMIN)
def save(show: Show, plane: Plane, caller: Visitor, which: str, form: Form) -> Response:
    """Change what differs; if somebody else was faster, show both."""
    service = PipelineService(plane, caller.name)
    stored = service.get(which)
    values, wrong = fields.read(form)
    if wrong:
        return _editor(show, stored, fields.shown(form), 422, findings=wrong)
    try:
        stored, _ = service.patch(str(stored.id), values, _version(form))
    except Stale as error:
        return _conflict(show, service.get(str(stored.id)), form, values, error)
    except VitrinaError as error:
        return _refused(show, stored, form, error)
    return RedirectResponse(link_to(stored.name, stored.id, "config"), 303)


@router.post("/editor/check")
@needs(Role.ADMIN)
def check(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """Findings, columns and plan of what stands in the form."""
    checked = _checked(plane, caller, form)
    stored = _stored(plane, caller, form)
    known: dict[str, Any] = {"checked": checked, "plan": _plan(checked, stored), "is_new": stored is None}
    return show.part("editor_checked.html", **known, shown_elsewhere=SHOWN_ELSEWHERE)


@router.post("/editor/preview")
@needs(Role.ADMIN)
def preview(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """The first rows of what stands in the form; nothing is written."""
    values, wrong = fields.read(form)
    try:
        if wrong:
            return show.part(
                "editor_preview.html", preview=None, wrong=f"{wrong[0].where}: {wrong[0].said_in(show.words)[0]}"
            )
        found = RequestService(plane, caller.name).preview_config(Pipeline.parse(_given(values)), PREVIEW_ROWS)
    except VitrinaError as error:
        return show.part("editor_preview.html", preview=None, wrong=str(error))
    if "kind" in found:
        return show.part("editor_preview.html", preview=None, wrong="no runner has answered yet; is one running?")
    return show.part("editor_preview.html", preview=found, wrong="")


def _editor(
    show: Screen, stored: StoredPipeline | None, form: list[fields.Field], status: int = 200, **context: Any
) -> Response:
    nonce = show.request.state.nonce = secrets.token_urlsafe(16)
    shown: dict[str, Any] = {"findings": [], "conflict": None, "version": stored.version if stored else 0} | context
    return show.page("editor.html", status, stored=stored, form=form, nonce=nonce, **shown)


def _refused(show: Screen, stored: StoredPipeline | None, form: dict[str, list[str]], error: VitrinaError) -> Response:
    """The form as it was sent, with what is wrong about it."""
    found = [*error.findings] if isinstance(error, Problem) else []
    findings = found or [refusal("", error.message, error.remedy)]
    status = error.status if isinstance(error, Problem) else 422
    version = _version(form) if stored else 0
    return _editor(show, stored, fields.shown(form), status, findings=findings, version=version)


def _conflict(
    show: Screen, stored: StoredPipeline, form: dict[str, list[str]], mine: dict[str, Any], error: Stale
) -> Response:
    """Both versions, field by field; what was typed stays, and saving again is then a decision."""
    theirs = {name: stored.config.get(name) for name in mine}
    differing = {name: text_diff(*values) for name, values in differences(theirs, _filled(mine))}
    conflict = {"message": error.message, "fields": differing, "version": stored.version}
    return _editor(show, stored, fields.shown(form), 412, conflict=conflict)


def _checked(plane: ControlPlane, caller: Actor, form: dict[str, list[str]]) -> Checked:
    values, wrong = fields.read(form)
    try:
        pipeline = Pipeline.parse(_given(values))
    except VitrinaError as error:
        return Checked(None, [*wrong, refusal("", error.message, error.remedy)])
    findings, columns = PipelineService(plane, caller.name).examine(pipeline)
    return Checked(pipeline, wrong + findings, columns)


def _plan(checked: Checked, stored: StoredPipeline | None) -> dict[str, Any]:
    """What saving would change, and what the next run would make of it."""
    if checked.pipeline is None or checked.errors:
        return {"fields": {}, "ddl": [], "follows": ""}
    config = stored.config if stored else None
    found = [(finding.code, finding.data) for finding in checked.findings]
    new = checked.pipeline.model_dump(mode="json")
    changed = {name: text_diff(*values) for name, values in differences(config, new)} if config else {}
    return {"fields": changed, "ddl": ddl(found), "follows": follows(checked.pipeline, config, found)}


def _stored(plane: ControlPlane, caller: Actor, form: dict[str, list[str]]) -> StoredPipeline | None:
    which = (form.get("of") or [""])[0]
    return PipelineService(plane, caller.name).get(which) if which else None


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    """With the model's defaults in the empty places, as the store would have them."""
    try:
        whole = Pipeline.parse(_given(values)).model_dump(mode="json")
    except VitrinaError:
        return values
    return {name: whole[name] for name in values}


def _version(form: dict[str, list[str]]) -> int:
    version = (form.get("version") or ["0"])[0]
    return int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0
