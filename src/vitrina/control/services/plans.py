"""What an edit would change, and what the next run would make of it: for the console, `plan` and `apply`."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Code
from vitrina.domain.pipeline import Pipeline, Plan, resolve, with_defaults
from vitrina.domain.wording import Data, fill
from vitrina.files import dump_yaml

# What the next run does to the target's definition, by what validation found.
DONE: dict[str, str] = {
    Code.WOULD_CREATE_TABLE: "{statement}",
    Code.WOULD_ALTER_TABLE: "{statement}",
    Code.WOULD_CREATE_INDEX: "create index {index} with {fields}",
    Code.WOULD_REBUILD_INDEX: "rebuild index {index} beside the one that is served, with {fields}",
}
Found: TypeAlias = Sequence[tuple[str, Data]]  # the codes and data of findings
NOT_COMPARED = {"id", "source_type"}


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The fields that differ, with both values."""
    before = with_defaults(old)
    for name, value in with_defaults(new).items():
        if name not in NOT_COMPARED and before.get(name) != value:
            yield name, (before.get(name), value)


def ddl(found: Found) -> list[str]:
    """What the next run will do to the target's definition, from what validation found."""
    return [fill(DONE[code], data) for code, data in found if code in DONE]


def follows(wanted: Pipeline, stored: dict[str, Any] | None, found: Found) -> str:
    """What the next run makes of it; empty if just what it would have done anyway."""
    plan, before, codes = _plan(wanted), _plan_of(stored), {code for code, _ in found}
    if plan and Code.WOULD_REBUILD_INDEX in codes:
        return f"a full load: the next run fills a new index, which then takes the place of {plan.target}"
    if plan is None or (before and before.fingerprint == plan.fingerprint):
        return ""
    if codes & {Code.WOULD_CREATE_TABLE, Code.WOULD_CREATE_INDEX}:
        return f"a full load: the next run creates {plan.target} and loads it"
    if plan.mode == "live":
        return f"a full comparison: the next run writes where {plan.target} differs, and then follows changes"
    if plan.mode == "incremental":
        return "a full load: there is no checkpoint for this query, so the next run reads all rows"
    return f"a full comparison: the next run reads all rows, and writes where {plan.target} differs"


def text_diff(old: Any, new: Any) -> list[str]:
    """Line by line, for what has lines; a single line otherwise."""
    if not _has_lines(old) and not _has_lines(new):
        return [f"{_shown(old)} → {_shown(new)}"]
    lines = difflib.unified_diff(_lines(old), _lines(new), lineterm="", n=2)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def _plan(pipeline: Pipeline) -> Plan | None:
    try:
        return resolve(pipeline)
    except VitrinaError:
        return None


def _plan_of(stored: dict[str, Any] | None) -> Plan | None:
    try:
        return resolve(Pipeline.parse(stored)) if stored else None
    except VitrinaError:
        return None


def _has_lines(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(item and isinstance(item, dict) for item in items) or (isinstance(value, str) and "\n" in value)


def _lines(value: Any) -> list[str]:
    if value is None or value == {}:
        return []
    return (value if isinstance(value, str) else dump_yaml(value)).splitlines()


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(str, value)) + "]"
    return "(none)" if value in (None, "") else str(value)
