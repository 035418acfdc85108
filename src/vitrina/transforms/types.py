"""Postgres types by name: those of a query as the server writes them, those of `adds` as somebody wrote them."""

import re

import psycopg

SPACES = re.compile(r"\s*([(,\[\]])\s*|\s+(?=\))")
NAME = re.compile(r"(?:pg_catalog\.)?([^(\[]+)(?:\((\d+)(?:,(-?\d+))?\))?([^(\[]*)((?:\[\d*\])*)")
OTHER_NAMES = {"int": "integer", "decimal": "numeric", "dec": "numeric", "float": "float8", "char": "character"}


def canonical(type_: str) -> str:
    """The name that the server gives it, without a length; with [] if it is an array."""
    found = NAME.fullmatch(_plain(type_))
    if found is None:
        return type_
    name = " ".join((found[1] + found[4]).split())
    known = psycopg.adapters.types.get(OTHER_NAMES.get(name, name))
    return (known.regtype if known else name) + "[]" * bool(found[5])


def digits(type_: str) -> tuple[int, int] | None:
    """Precision and scale, if it is numeric and has them."""
    found = NAME.fullmatch(_plain(type_))
    if found is None or found[2] is None or canonical(type_) != "numeric":
        return None
    return int(found[2]), int(found[3] or 0)


def oid_of(type_: str) -> int:
    """Of a type that every server has; 0 for others, whose values are text."""
    name = canonical(type_)
    known = psycopg.adapters.types.get(name.removesuffix("[]"))
    if known is None:
        return 0
    return known.array_oid if name.endswith("[]") else known.oid


def _plain(type_: str) -> str:
    return SPACES.sub(r"\1", type_.strip().lower())
