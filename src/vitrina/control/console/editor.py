"""The editor's pages: a new pipeline, an edit, a copy, an earlier version; fields or YAML. Stale edits are refused."""

import re
import secrets
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import RedirectResponse
from psycopg import sql

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console import checking, fields
from vitrina.control.console.access import Form, Visitor
from vitrina.control.console.checking import given, stored_of
from vitrina.control.console.render import Screen, Show, link_to
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Problem, Stale
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.plans import differences, text_diff
from vitrina.control.services.sources import Sources
from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Finding, refused
from vitrina.domain.pipeline import WAREHOUSE, Pipeline
from vitrina.domain.refusals import Refusal
from vitrina.meta.repos.pipelines import StoredPipeline
from vitrina.transforms import REGISTRY

router = APIRouter()
router.include_router(checking.router)
EXAMPLE: dict[str, Any] = {"schema": "public", "name": "a_table", "key": ["id"], "columns": []}
COLUMNS = 4  # of a query to begin from
PLAIN = re.compile("[a-z_][a-z0-9_]*")  # needs no quotes after a dot
NOT_COPIED = ("id", "name", "target_table")


@router.get("/new")
@needs(Role.ADMIN)
def new(show: Show, plane: Plane, caller: Visitor, like: Annotated[str, Query(max_length=200)] = "") -> Response:
    """A form with something to begin from: an example, or another pipeline without its name and its target."""
    if not like:
        return _editor(show, plane, None, values=_beginning(plane))
    stored = PipelineService(plane, caller.name).get(like)
    copied = {name: value for name, value in stored.config.items() if name not in NOT_COPIED}
    copied["tasks"] = [task | {"target_table": None} for task in stored.config.get("tasks") or ()]
    return _editor(show, plane, None, values=copied, like=stored)


@router.post("/new")
@needs(Role.ADMIN)
def create(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """Store it, or say why not."""
    values, wrong = fields.read(form)
    try:
        if wrong:
            return _editor(show, plane, None, 422, form=form, findings=wrong)
        stored, _ = PipelineService(plane, caller.name).create(Pipeline.parse(given(values)))
    except VitrinaError as error:
        return _refused(show, plane, None, form, error)
    return RedirectResponse(link_to(stored.name, stored.id), 303)


@router.get("/pipelines/{which}/edit")
@needs(Role.ADMIN)
def edit(show: Show, plane: Plane, caller: Visitor, which: str, version: int | None = None) -> Response:
    """The form, with what is stored, or with what an earlier version had."""
    service = PipelineService(plane, caller.name)
    stored = service.get(which)
    if version is None or version == stored.version:
        return _editor(show, plane, stored, values=stored.config)
    earlier = service.version(str(stored.id), version)
    back = {"version": version, "fields": _diffs(stored.config, earlier["config"])} | _said_of(earlier)
    return _editor(show, plane, stored, values=earlier["config"], back=back)


@router.post("/pipelines/{which}/edit")
@needs(Role.ADMIN)
def save(show: Show, plane: Plane, caller: Visitor, which: str, form: Form) -> Response:
    """Change what differs; if somebody else was faster, show both."""
    service = PipelineService(plane, caller.name)
    stored = service.get(which)
    values, wrong = fields.read(form)
    if wrong:
        return _editor(show, plane, stored, 422, form=form, findings=wrong)
    try:
        stored, _ = service.patch(str(stored.id), values, _version(form))
    except Stale as error:
        return _conflict(show, plane, service.get(str(stored.id)), form, values, error)
    except VitrinaError as error:
        return _refused(show, plane, stored, form, error)
    return RedirectResponse(link_to(stored.name, stored.id, "config"), 303)


@router.post("/editor/view")
@needs(Role.ADMIN)
def view(show: Show, plane: Plane, caller: Visitor, form: Form) -> Response:
    """The same, the other way: fields as YAML, or YAML as fields. What cannot be read stays as it is."""
    stored = stored_of(plane, caller, form)
    values, wrong = fields.read(form)
    unknown = sorted(set(values) - Pipeline.model_fields.keys())
    if unknown:
        wrong = [*wrong, Finding("error", "", Refusal.UNKNOWN_FIELDS, {"fields": unknown})]
    if wrong:
        context = _shown(plane, form=form, findings=wrong)
    elif fields.WHOLE in form:
        context = _shown(plane, values=given(values))
    else:
        context = _shown(plane, yaml=fields.written(given(values)))
    return show.part("editor_form.html", stored=stored, version=_version(form), **context)


def _editor(
    show: Screen, plane: ControlPlane, stored: StoredPipeline | None, status: int = 200, **context: Any
) -> Response:
    nonce = show.request.state.nonce = secrets.token_urlsafe(16)
    version = context.pop("version", stored.version if stored else 0)
    return show.page("editor.html", status, stored=stored, nonce=nonce, version=version, **_shown(plane, **context))


def _shown(
    plane: ControlPlane,
    *,
    values: Mapping[str, Any] | None = None,
    form: Mapping[str, list[str]] | None = None,
    yaml: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What the form shows: a configuration, what was typed, or a text that holds all of it."""
    lists = {"source": [source.name for source in Sources(plane).all()], "python_task": sorted(REGISTRY)}
    if form is not None and fields.WHOLE in form:
        yaml = form[fields.WHOLE][0]
    said = fields.shown(form, lists) if form is not None else fields.form_fields(values or {}, lists)
    known: dict[str, Any] = {"findings": [], "conflict": None, "back": None, "like": None, "typed": form is not None}
    zone = ((form or {}).get(fields.ZONE) or [""])[0]
    return known | {"groups": fields.grouped(said), "yaml": yaml, "zone": zone} | more


def _beginning(plane: ControlPlane) -> dict[str, Any]:
    """A query over the first table of the warehouse that can be read; where there is none, what one looks like."""
    found = Sources(plane).ask(WAREHOUSE, tables=True).seen.tables
    table = next((each for each in found if each["readable"] and each["key"]), EXAMPLE)
    names = dict.fromkeys([*table["key"], *(column["name"] for column in table["columns"])])
    columns = ", ".join(f"t.{_quoted(name)}" for name in list(names)[:COLUMNS])
    query = f"SELECT {columns}\nFROM {_quoted(table['schema'])}.{_quoted(table['name'])} t\n"
    marts = next(iter(plane.settings.mart_schemas), "")
    return {"source_query": query, "key": list(table["key"]), "target_table": f"{marts}." if marts else ""}


def _quoted(name: str) -> str:
    return name if PLAIN.fullmatch(name) else sql.Identifier(name).as_string(None)


def _refused(
    show: Screen, plane: ControlPlane, stored: StoredPipeline | None, form: dict[str, list[str]], error: VitrinaError
) -> Response:
    """The form as it was sent, with what is wrong about it."""
    found: list[Finding] = [*error.findings] if isinstance(error, Problem) else []
    findings = found or [refused("", error)]
    status = error.status if isinstance(error, Problem) else 422
    version = _version(form) if stored else 0
    return _editor(show, plane, stored, status, form=form, findings=findings, version=version)


def _conflict(
    show: Screen,
    plane: ControlPlane,
    stored: StoredPipeline,
    form: dict[str, list[str]],
    mine: dict[str, Any],
    error: Stale,
) -> Response:
    """Both versions, field by field; what was typed stays, and saving again is then a decision."""
    theirs = {name: value for name, value in stored.config.items() if name in mine}
    conflict = {"message": error.message, "fields": _diffs(theirs, _filled(mine)), "version": stored.version}
    return _editor(show, plane, stored, 412, form=form, conflict=conflict)


def _diffs(old: dict[str, Any], new: dict[str, Any]) -> dict[str, list[str]]:
    return {name: text_diff(*values) for name, values in differences(old, new)}


def _said_of(version: Mapping[str, Any]) -> dict[str, Any]:
    return {"by": version["changed_by"], "at": version["changed_at"]}


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    """With the model's defaults in the empty places, as the store would have them."""
    try:
        whole = Pipeline.parse(given(values)).model_dump(mode="json")
    except VitrinaError:
        return values
    return {name: whole[name] for name in values}


def _version(form: dict[str, list[str]]) -> int:
    version = (form.get("version") or ["0"])[0]
    return int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0
