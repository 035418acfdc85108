"""What a SELECT gives: its columns and their types, as Postgres describes them, without running it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, describe_prepared, fetch_all, prepare, translated

TYPMOD = re.compile(r"\(\d+(,-?\d+)?\)")
UNBOUNDED = {"character": "bpchar", "bit": "bit varying"}  # without a length these mean a length of 1
OURS = "vitrina_"  # begins the names of columns that Vitrina adds to scratch tables
FIRST_USER_OID = 16_384  # below it: types that every server has, with the same binary form,
OBJECT = "reg"  # except regclass and the like, whose binary form is a number that means nothing elsewhere


@dataclass(frozen=True)
class Column:
    """A column with its type as SQL writes it, e.g. `numeric(3,1)`."""

    name: str
    type: str
    builtin: bool = True

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted."""
        return sql.Identifier(self.name)

    @property
    def unbounded_type(self) -> str:
        """Its type without a length, so that nothing is cut when a value is cast to it."""
        bare = TYPMOD.sub("", self.type)
        return UNBOUNDED.get(bare, bare)

    @property
    def sql_type(self) -> sql.SQL:
        """Its type; the text comes from format_type, never from a user."""
        return sql.SQL(self.type)


def describe(conn: Connection, select: str) -> list[Column]:
    """The columns of a SELECT; names must be there and differ."""
    with translated():
        described = _describe_statement(conn, select)
    columns = _columns(conn, described)
    _check_names(columns)
    return columns


def _describe_statement(conn: Connection, select: str) -> list[tuple[str, int, int]]:
    prepare(conn, select.encode())
    result = describe_prepared(conn)
    names = [result.fname(i) or b"" for i in range(result.nfields)]
    return [(name.decode(), result.ftype(i), result.fmod(i)) for i, name in enumerate(names)]


def _columns(conn: Connection, described: Sequence[tuple[str, int, int]]) -> list[Column]:
    rows = fetch_all(
        conn,
        "SELECT format_type(oid, mod) AS type"
        " FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS t (oid, mod, n) ORDER BY n",
        [[oid for _, oid, _ in described], [mod for _, _, mod in described]],
    )
    typed = [(name, oid, row["type"]) for (name, oid, _), row in zip(described, rows, strict=True)]
    return [Column(name, type_, oid < FIRST_USER_OID and not type_.startswith(OBJECT)) for name, oid, type_ in typed]


def _check_names(columns: Iterable[Column]) -> None:
    seen = set()
    for column in columns:
        if column.name == "?column?":
            raise ConfigError("a column of the query has no name", "give it one with AS")
        if column.name.startswith(OURS):
            raise ConfigError(f"column {column.name} of the query has a name of Vitrina's own", "rename it with AS")
        if column.name in seen:
            raise ConfigError(f"the query gives column {column.name!r} twice", "give them different names with AS")
        seen.add(column.name)
    if not seen:
        raise ConfigError("the query gives no columns")
