"""Answers with documents in them, which stay the texts that they are: 1.50 and not 1.5, and whatever their size."""

import json
from typing import Any

SOURCE = '"_source":'
DECODER = json.JSONDecoder(parse_float=str, parse_int=str)  # numbers are not looked at


def take_out(text: str) -> tuple[Any, list[str]]:
    """An answer with a number in the place of each `_source`, and by these numbers their texts.

    A key can be searched for: inside of a string its quotes would be escaped.
    """
    sources: list[str] = []
    rest, at = [], 0
    while (found := text.find(SOURCE, at)) >= 0:
        begin = found + len(SOURCE)
        end = DECODER.raw_decode(text, begin)[1]
        rest += [text[at:begin], str(len(sources))]
        sources.append(text[begin:end])
        at = end
    return json.loads("".join([*rest, text[at:]])), sources
