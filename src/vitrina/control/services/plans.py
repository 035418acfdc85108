"""What an edit would change, and what the next run would make of it: for the console, `plan` and `apply`."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Code
from vitrina.domain.pipeline import Pipeline, Plan, members, resolve, with_defaults
from vitrina.domain.wording import Data, fill
from vitrina.files import dump_yaml

# What the next run does to the target's definition, by what validation found.
DONE: dict[str, str] = {
    Code.WOULD_CREATE_TABLE: "{statement}",
    Code.WOULD_ALTER_TABLE: "{statement}",
    Code.WOULD_REBUILD_TABLE: "{statement}",
    Code.WOULD_CREATE_INDEX: "create index {index} with {fields}",
    Code.WOULD_REBUILD_INDEX: "rebuild index {index} beside the one that is served, with {fields}",
}


class FoundOf(NamedTuple):
    """A finding: its code and data, and of several targets whose it is."""

    code: str
    data: Data
    target: str = ""


Found: TypeAlias = Sequence[FoundOf]
NOT_COMPARED = {"id", "source_type"}


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The fields that differ, with both values."""
    before = with_defaults(old)
    for name, value in with_defaults(new).items():
        if name not in NOT_COMPARED and before.get(name) != value:
            yield name, (before.get(name), value)


def ddl(found: Found) -> list[str]:
    """What the next run will do to the target's definition, from what validation found."""
    return [fill(DONE[code], data) for code, data, _ in found if code in DONE]


def follows_each(wanted: Pipeline, stored: dict[str, Any] | None, found: Found) -> str:
    """The same as `follows`; of several targets of each in turn."""
    if not wanted.targets:
        return follows(wanted, stored, found)
    said = []
    for member in _members(wanted):
        own = [each for each in found if each.target in ("", member.target_table)]
        before = next(
            (dict(config) for config in _stored_members(stored) if config["target_table"] == member.target_table), None
        )
        said.append(follows(member, before, own))
    return "; ".join(dict.fromkeys(text for text in said if text))


def follows(wanted: Pipeline, stored: dict[str, Any] | None, found: Found) -> str:
    """What the next run makes of it; empty if just what it would have done anyway."""
    plan, before, codes = _plan(wanted), _plan_of(stored), {each.code for each in found}
    if plan and Code.WOULD_REBUILD_INDEX in codes:
        return f"a full load: the next run fills a new index, which then takes the place of {plan.target}"
    if plan and Code.WOULD_REBUILD_TABLE in codes:
        return f"a full load: the next run fills a new table, which then takes the place of {plan.target}"
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


def _members(pipeline: Pipeline) -> list[Pipeline]:
    try:
        return members(pipeline)
    except VitrinaError:
        return []


def _stored_members(stored: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Those that a stored configuration has; one that is its only target is one of them."""
    try:
        return [each.model_dump(mode="json") for each in members(Pipeline.parse(stored))] if stored else []
    except VitrinaError:
        return []


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
