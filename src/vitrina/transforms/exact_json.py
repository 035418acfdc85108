"""JSON on its way through Python: a value that no transform changes is written back exactly as it was read.

Python's own forms would lose digits (a float holds 17), spaces and repeated names.
"""

import json
from typing import Any

from psycopg.adapt import Loader
from psycopg.types.json import Json


class JsonDict(dict[str, Any]):
    """Like any other, with the text it was read from; so are the rest. They have names, to go to another process."""


class JsonList(list[Any]):
    """An array."""


class JsonStr(str):
    """A string."""


class JsonFloat(float):
    """A number."""


REMEMBERING: dict[type, Any] = {dict: JsonDict, list: JsonList, str: JsonStr, float: JsonFloat}


class JsonLoader(Loader):
    """Loads a value that remembers its text."""

    def load(self, data: bytes | bytearray | memoryview) -> Any:
        """The value."""
        text = bytes(data).decode()
        value = json.loads(text)
        if type(value) in REMEMBERING:
            value = REMEMBERING[type(value)](value)
            value.text = text
        return value


def write_json(value: Any) -> Any:
    """What COPY writes for a value of a json column: its first text, unless it has been changed."""
    text = getattr(value, "text", None)
    if text is not None and json.dumps(json.loads(text)) == json.dumps(value):
        return Json(value, dumps=lambda _: text)
    return None if value is None else Json(value)


def write_json_array(value: Any) -> Any:
    """The same for an array of json, of any dimension."""
    return [write_json_array(item) for item in value] if type(value) is list else write_json(value)
