"""What an edit would change, and what the next run would make of it: for the console, `plan` and `apply`."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Pipeline, Plan, resolve
from vitrina.files import dump_yaml

WOULD_RUN = re.compile("would (?:run: )?")
CREATES, REBUILDS = ("CREATE TABLE", "create index"), "rebuild index"
NOT_COMPARED = {"id", "source_type"}


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """The fields that differ, with both values."""
    for name, value in new.items():
        if name not in NOT_COMPARED and old.get(name) != value:
            yield name, (old.get(name), value)


def ddl(messages: Iterable[str]) -> list[str]:
    """What the next run will do to the target's definition, from what validation said."""
    return [WOULD_RUN.sub("", message, count=1) for message in messages if WOULD_RUN.match(message)]


def follows(wanted: Pipeline, stored: dict[str, Any] | None, statements: Sequence[str]) -> str:
    """What the next run makes of it; empty if just what it would have done anyway."""
    plan, before = _plan(wanted), _plan_of(stored)
    if plan and any(statement.startswith(REBUILDS) for statement in statements):
        return f"a full load: the next run fills a new index, which then takes the place of {plan.target}"
    if plan is None or (before and before.fingerprint == plan.fingerprint):
        return ""
    if any(statement.startswith(CREATES) for statement in statements):
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
