"""Which fields of untrusted values are wrong, in words of people who write YAML."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

LONG = 40  # characters of a value that are quoted
NUMBER, WHOLE, TEXT = "must be a number", "must be a whole number", "must be text"
LIST, MAPPING = "must be a list, such as [a, b]", "must be a mapping, such as {a: b}"
YES_OR_NO, UUID = "must be true or false", "must be a UUID, such as 6b9f2a7e-1c1d-4f6e-9f0e-3a2f5c8d7b10"
# What was expected, by the kind of error: before ", not " and what is there.
EXPECTED = {
    **dict.fromkeys(("string_type", "string_unicode", "string_sub_type"), TEXT),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), WHOLE),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), YES_OR_NO),
    **dict.fromkeys(("uuid_type", "uuid_parsing", "uuid_version"), UUID),
    **dict.fromkeys(("tuple_type", "list_type", "set_type"), LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), MAPPING),
}
# What is wrong, by the kind of error: the limit is in its context.
SAID: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "missing": lambda _: "is missing",
    "extra_forbidden": lambda _: "is not known",
    "greater_than_equal": lambda c: f"must be at least {c['ge']:,}",
    "greater_than": lambda c: f"must be more than {c['gt']:,}",
    "less_than_equal": lambda c: f"must be at most {c['le']:,}",
    "less_than": lambda c: f"must be less than {c['lt']:,}",
    "string_too_short": lambda c: _short(c["min_length"], "characters"),
    "string_too_long": lambda c: f"has more than {c['max_length']:,} characters",
    "too_short": lambda c: _short(c["min_length"], "items"),
    "too_long": lambda c: f"has more than {c['max_length']:,} items",
    "string_pattern_mismatch": lambda c: f"must look like {c['pattern']}",
    "value_error": lambda c: str(c["error"]),
    "json_invalid": lambda c: f"is no JSON: {c['error']}",
}


def wrong_fields(error: ValidationError, known: Iterable[str] = ()) -> str:
    """Each wrong field with where it is and what is wrong with it; one that is nearly `known` is asked about."""
    return "; ".join(_sentence(item, list(known)) for item in error.errors())


def wrong(item: ErrorDetails, *, quote: bool = True) -> str:
    """What is wrong with a value, without its name; a text is quoted unless it may be a secret."""
    kind, context = item["type"], item.get("ctx", {})
    if kind in SAID:
        return SAID[kind](context)
    if kind in ("literal_error", "enum"):
        return f"must be {context['expected'].replace(chr(39), '')}, not {_shown(item['input'], quote=quote)}"
    if kind in EXPECTED:
        is_bare = EXPECTED[kind] is TEXT and isinstance(item["input"], int | float | date)
        return f"{EXPECTED[kind]}, not {_shown(item['input'], quote=quote)}" + (": put it in quotes" if is_bare else "")
    return item["msg"].replace("Input should", "must").replace("String should", "must")


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether dictionaries and lists are nested deeper than that; looks level by level, since they may be very deep."""
    level = [value]
    for _ in range(limit + 1):
        level = [child for item in level for child in _children(item)]
    return bool(level)


def shortened(value: str) -> str:
    """A text in quotes, not longer than people read."""
    return f"{value if len(value) <= LONG else value[: LONG - 2] + ' …'!r}"


def _sentence(item: ErrorDetails, known: list[str]) -> str:
    where, said = _place(item["loc"]), wrong(item)
    if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
        near = get_close_matches(where, known, n=1)
        said += f"; is {near[0]} meant?" if near else ""
    if said.startswith(f"{where} ") or not where:
        return said
    is_said_of_it = item["type"] != "value_error" or said.startswith(
        ("is ", "must ")
    )  # a field's own rule says anything
    return f"{where} {said}" if is_said_of_it else f"{where}: {said}"


def _short(least: int, what: str) -> str:
    return "is empty" if least == 1 else f"has fewer than {least:,} {what}"


def _place(loc: tuple[int | str, ...]) -> str:
    """`body of item 1 of tasks`, as people say it."""
    if loc[-1:] == ("[key]",):
        return f"a name in {_place(loc[:-2])}"
    return " of ".join(f"item {part + 1}" if isinstance(part, int) else part for part in reversed(loc))


def _shown(value: Any, *, quote: bool) -> str:
    """What is there, as YAML has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return shortened(value) if quote else "this text"
    kinds: dict[type, str] = {list: "a list", tuple: "a list", dict: "a mapping", set: "a set", bytes: "bytes"}
    return "a date" if isinstance(value, date) else kinds.get(type(value), "this")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
