"""How the rows of a mart in a lake are kept apart: `month(released)`, `bucket(16, id)`, `truncate(4, name)`, or just a
column."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from vitrina.domain.faults import Rule

MOST = 8
WIDTHS = {"bucket": 10_000, "truncate": 1_000_000}  # the most of each
TIMES = ("year", "month", "day", "hour")
AS_IS = "identity"
BARE = re.compile(r"[^\s(),\"\x00]+")
NAME = r"(?P<name>\"(?:[^\"\x00]|\"\")+\"|[^\s(),\"\x00]+)"
CALL = re.compile(rf"(?P<how>[A-Za-z]+)\s*\(\s*(?:(?P<width>[0-9]{{1,9}})\s*,\s*)?{NAME}\s*\)")
COLUMN = re.compile(NAME)
TOKEN = re.compile(r"\"(?:[^\"]|\"\")*\"|.", re.DOTALL)


@dataclass(frozen=True)
class PartitionField:
    """A column, and what of it rows have in common that are kept together."""

    how: str
    column: str
    width: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """From what people write; a ValueError says what is wrong with it."""
        if found := COLUMN.fullmatch(text):
            return cls(AS_IS, _unquoted(found["name"]))
        found = CALL.fullmatch(text)
        if not found:
            raise ValueError(Rule.NO_PARTITION.of(text=text))
        how, width = found["how"].lower(), int(found["width"]) if found["width"] else None
        if how not in (*TIMES, *WIDTHS, AS_IS):
            raise ValueError(Rule.NO_WAY_TO_DIVIDE.of(text=text, known=[*TIMES, *WIDTHS]))
        most = WIDTHS.get(how)
        if most is None and width is not None:
            raise ValueError(Rule.NUMBER_GIVEN.of(text=text, how=how))
        if most is not None and not 1 <= (width or 0) <= most:
            raise ValueError(Rule.NUMBER_OUTSIDE.of(text=text, how=how, most=most))
        return cls(how, _unquoted(found["name"]), width)

    def __str__(self) -> str:
        name = self.column if BARE.fullmatch(self.column) else f'"{self.column.replace(chr(34), chr(34) * 2)}"'
        if self.how == AS_IS:
            return name
        return f"{self.how}({name})" if self.width is None else f"{self.how}({self.width}, {name})"


def read_partitions(value: Any) -> Any:
    """As they are stored, each in one spelling. YAML's `[month(at), bucket(16, id)]` splits at every comma."""
    pieces = [value] if isinstance(value, str) else value
    if not isinstance(pieces, list | tuple) or not all(isinstance(piece, str) for piece in pieces):
        return value
    fields = [PartitionField.parse(text) for text in _split(", ".join(pieces))]
    if len(fields) > MOST:
        raise ValueError(Rule.MANY_PARTS.of(count=len(fields), most=MOST))
    columns = [field.column for field in fields]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise ValueError(Rule.COLUMN_DIVIDES_TWICE.of(column=twice[0]))
    return tuple(map(str, fields))


def _split(text: str) -> Iterator[str]:
    """At the commas that are in no parentheses and no name."""
    parts, depth = [""], 0
    for token in TOKEN.findall(text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return (part.strip() for part in parts) if text.strip() else iter(())


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
