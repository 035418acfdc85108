"""Which fields of untrusted values are wrong, in words of people who write YAML."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from difflib import get_close_matches
from functools import reduce
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vitrina.domain.faults import Fault, Part, Rule
from vitrina.domain.wording import Because

LONG = 40  # characters of a value that are quoted
# What was expected, by the kind of error.
EXPECTED: Mapping[str, Fault] = {
    **dict.fromkeys(("string_type", "string_unicode", "string_sub_type"), Fault.NO_TEXT),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), Fault.NO_WHOLE_NUMBER),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), Fault.NO_NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), Fault.NO_BOOLEAN),
    **dict.fromkeys(("uuid_type", "uuid_parsing", "uuid_version"), Fault.NO_UUID),
    **dict.fromkeys(("tuple_type", "list_type", "set_type"), Fault.NO_LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), Fault.NO_MAPPING),
}
# What is wrong, by the kind of error: the limit is in its context.
SAID: Mapping[str, Callable[[Mapping[str, Any]], Because]] = {
    "missing": lambda _: Fault.MISSING.of(),
    "extra_forbidden": lambda _: Fault.UNKNOWN.of(),
    "greater_than_equal": lambda c: Fault.TOO_SMALL.of(limit=c["ge"]),
    "greater_than": lambda c: Fault.NOT_MORE.of(limit=c["gt"]),
    "less_than_equal": lambda c: Fault.TOO_LARGE.of(limit=c["le"]),
    "less_than": lambda c: Fault.NOT_LESS.of(limit=c["lt"]),
    "string_too_short": lambda c: _short(c["min_length"], Fault.FEW_CHARACTERS),
    "string_too_long": lambda c: Fault.MANY_CHARACTERS.of(limit=c["max_length"]),
    "too_short": lambda c: _short(c["min_length"], Fault.FEW_ITEMS),
    "too_long": lambda c: Fault.MANY_ITEMS.of(limit=c["max_length"]),
    "string_pattern_mismatch": lambda c: Fault.OTHER_PATTERN.of(pattern=c["pattern"]),
    "value_error": lambda c: _own(c["error"]),
    "json_invalid": lambda c: Fault.NO_JSON.of(error=str(c["error"])),
}
KINDS: Mapping[type, Part] = {
    list: Part.A_LIST,
    tuple: Part.A_LIST,
    dict: Part.A_MAPPING,
    set: Part.A_SET,
    bytes: Part.BYTES,
}


def wrong_fields(error: ValidationError, known: Iterable[str] = ()) -> list[Because]:
    """Each wrong field with where it is and what is wrong with it; one that is nearly `known` is asked about."""
    return [_sentence(item, list(known)) for item in error.errors()]


def wrong(item: ErrorDetails, *, quote: bool = True) -> Because:
    """What is wrong with a value, without its name; a text is quoted unless it may be a secret."""
    kind, context, given = item["type"], item.get("ctx", {}), item["input"]
    if kind in SAID:
        return SAID[kind](context)
    found = _shown(given, quote=quote)
    if kind in ("literal_error", "enum"):
        return Fault.NO_CHOICE.of(expected=context["expected"].replace(chr(39), ""), found=found)
    if kind in EXPECTED:
        is_bare = EXPECTED[kind] is Fault.NO_TEXT and isinstance(given, int | float | date)
        return (Fault.BARE_TEXT if is_bare else EXPECTED[kind]).of(found=found)
    said = item["msg"].replace("Input should", "must").replace("String should", "must")
    return Fault.OTHERWISE.of(error=said)


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether dictionaries and lists are nested deeper than that; looks level by level, since they may be very deep."""
    level = [value]
    for _ in range(limit + 1):
        level = [child for item in level for child in _children(item)]
    return bool(level)


def shortened(value: str) -> str:
    """A text in quotes, not longer than people read."""
    return f"{value if len(value) <= LONG else value[: LONG - 2] + ' …'!r}"


def _sentence(item: ErrorDetails, known: list[str]) -> Because:
    where, fault = _place(item["loc"]), wrong(item)
    if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
        near = get_close_matches(str(where), known, n=1)
        fault = Fault.NEARLY_KNOWN.of(near=near[0]) if near else fault
    if fault.code is Part.WITH_WAY or not where:
        return fault
    return (Part.SENTENCE if isinstance(fault.code, Fault) else Part.ABOUT).of(where=where, fault=fault)


def _own(error: Exception) -> Because:
    """What a field's own rule has found."""
    said = error.args[0] if error.args else ""
    return said if isinstance(said, Because) else Rule.OTHER.of(error=str(said))


def _short(least: int, fault: Fault) -> Because:
    return Fault.EMPTY.of() if least == 1 else fault.of(limit=least)


def _place(loc: tuple[int | str, ...]) -> str:
    """`body of item 1 of tasks`, as people say it."""
    if loc[-1:] == ("[key]",):
        return Part.NAME_IN.of(whole=_place(loc[:-2]))
    parts = [Part.ITEM.of(number=part + 1) if isinstance(part, int) else part for part in loc]
    return reduce(lambda whole, part: Part.WITHIN.of(part=part, whole=whole), parts) if parts else ""


def _shown(value: Any, *, quote: bool) -> str:
    """What is there, as YAML has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return shortened(value) if quote else Part.THIS_TEXT.of()
    return (Part.A_DATE if isinstance(value, date) else KINDS.get(type(value), Part.THIS)).of()


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
