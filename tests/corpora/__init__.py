"""Queries by the hundred: hostile ones that must be refused, honest ones that must not."""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures.sql"
BLOCK = re.compile(r"^-- name: ([^\n]+)\n((?:-- \w+: [^\n]+\n)*)(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
TIMES = re.compile("«(\\d+)×(.*?)»", re.DOTALL)


@dataclass(frozen=True)
class Text:
    """One query. `lends`: it reads with the rights of a view's or a function's owner."""

    name: str
    query: str
    lends: bool


def corpus(name: str) -> list[Text]:
    """The texts of a file, with «3×ab» written out as ababab."""
    return [
        Text(block[1], TIMES.sub(lambda m: m[2] * int(m[1]), block[3].strip()), "-- lends:" in block[2])
        for block in BLOCK.finditer((HERE / f"{name}.sql").read_text())
    ]


# What a hostile text tries, by how its name begins.
KINDS = {
    "another statement than one SELECT": (
        "stacked:", "no statement", "empty", "statement:", "comment first", "nested comment", "cte deletes",
        "cte inserts", "cte updates", "cte merges", "cte of a cte deletes", "cte in a subquery deletes", "select into",
        "for ", "parameter",
    ),
    "a table of another schema": (
        "reads auth", "reads etl", "reads pg_", "reads users", "reads analytics", "reads information_schema",
        "cte hides", "cte of its own name", "cte in a sibling",
    ),
    "a view that reaches further": ("view ",),
    "a function of the source's own": (
        "definer function", "user function", "user aggregate", "user operator", "cast function", "domain", "range",
        "policy", "shadow",
    ),
    "a function that reaches out of the query": (
        "sleeps", "locks:", "signals:", "changes settings:", "reads settings:", "reads files:", "large objects:",
        "executes text:", "writes:", "reads the server:", "is never the same:", "random sample", "built-in",
        "input function", "text to regclass", "extension:",
    ),
    "as deep or as long as it gets": ("nesting:", "length:"),
}  # fmt: skip


def kind_of(text: Text) -> str:
    """What it tries."""
    (kind,) = [kind for kind, beginnings in KINDS.items() if text.name.startswith(beginnings)]
    return kind
