"""JSON that is taken apart without being understood: a document stays the text that it is, 1.50 and not 1.5."""

import json
import re
from typing import Any

SPACE = re.compile(r"[ \t\n\r]*")
DECODER = json.JSONDecoder(parse_float=str, parse_int=str)  # numbers are not looked at


def take_apart(text: str, key: str) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """The objects of the first array under that key, each value as its text, and the answer without them.

    Where the array begins can be searched for: inside of a string the quotes of a key would be escaped.
    """
    start = text.find(f'"{key}":[')
    if start < 0:
        raise ValueError(text[:200])
    at = begin = start + len(key) + 4
    objects = []
    while text[at : at + 1] not in ("]", ""):
        found, at = _members(text, at)
        objects.append(found)
        at = _next(text, at)
    return objects, dict(json.loads(text[:begin] + text[at:]))


def _members(text: str, at: int) -> tuple[dict[str, str], int]:
    """Of the object that begins there, and where it ends."""
    found: dict[str, str] = {}
    at = _skip(text, at + 1)
    while text[at : at + 1] not in ("}", ""):
        name, at = DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)
        _, end = DECODER.raw_decode(text, begin)
        found[name] = text[begin:end]
        at = _next(text, end)
    return found, at + 1


def _next(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at : at + 1] == "," else at


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    assert match is not None
    return match.end()
