"""What a SELECT gives: its columns and their types, as Postgres describes them, without running it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.meta.db import SEARCH_PATH, Connection, describe_prepared, fetch_all, prepare, translated

TYPMOD = re.compile(r"\(\d+(,-?\d+)?\)")
UNBOUNDED = {"character": "bpchar", "bit": "bit varying"}  # without a length these mean a length of 1
OURS = "vitrina_"  # begins the names of columns that Vitrina adds to scratch tables
FIRST_USER_OID = 16_384  # below it: types that every server has, with the same binary form,
OBJECT = "reg"  # except regclass and the like, whose binary form is a number that means nothing elsewhere
PIN = sql.SQL("SET LOCAL search_path = {}").format(sql.SQL(SEARCH_PATH))
# Where the operators of a type live: with what sorts it, else with those that every server has for any type of a kind.
TYPES = """
SELECT format_type(t.oid, t.mod) AS type, coalesce(s.nspname, 'pg_catalog') AS operators
FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS t (oid, mod, n)
LEFT JOIN pg_opclass c ON c.opcintype = t.oid AND c.opcdefault AND c.opcmethod = 403
LEFT JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = t.oid AND a.amoprighttype = t.oid
                   AND a.amopstrategy = 3
LEFT JOIN pg_operator o ON o.oid = a.amopopr
LEFT JOIN pg_namespace s ON s.oid = o.oprnamespace
ORDER BY t.n
"""


@dataclass(frozen=True)
class Column:
    """A column with its type as SQL writes it, e.g. `numeric(3,1)`."""

    name: str
    type: str
    builtin: bool = True
    operators: str = field(default="pg_catalog", compare=False)  # the schema of those that compare its values

    def operator(self, symbol: LiteralString) -> sql.Composed:
        """`=` or the like for its values, by its schema: by name alone, somebody else's might fit better."""
        return operator(self.operators, symbol)

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted."""
        return sql.Identifier(self.name)

    @property
    def unbounded_type(self) -> str:
        """Its type without a length, so that nothing is cut when a value is cast to it."""
        bare, array, _ = TYPMOD.sub("", self.type).partition("[]")
        return UNBOUNDED.get(bare, bare) + array

    @property
    def sql_type(self) -> sql.SQL:
        """Its type; the text comes from format_type, never from a user."""
        return sql.SQL(self.type)


def operator(schema: str, symbol: LiteralString) -> sql.Composed:
    """An operator by its schema."""
    return sql.SQL("OPERATOR({}.{})").format(sql.Identifier(schema), sql.SQL(symbol))


def describe(conn: Connection, select: str) -> list[Column]:
    """The columns of a SELECT; names must be there and differ. Types have their schema unless every server has them.

    Leaves search_path at what our own sessions have, since another session will be told these types.
    """
    with translated():
        described = _describe_statement(conn, select)
        conn.execute(PIN)
    columns = _columns(conn, described)
    check_names(columns)
    return columns


def _describe_statement(conn: Connection, select: str) -> list[tuple[str, int, int]]:
    prepare(conn, select.encode())
    result = describe_prepared(conn)
    names = [result.fname(i) or b"" for i in range(result.nfields)]
    return [(name.decode(), result.ftype(i), result.fmod(i)) for i, name in enumerate(names)]


def _columns(conn: Connection, described: Sequence[tuple[str, int, int]]) -> list[Column]:
    oids, mods = [oid for _, oid, _ in described], [mod for _, _, mod in described]
    rows = fetch_all(conn, TYPES, [oids, mods])
    typed = [(name, oid, row) for (name, oid, _), row in zip(described, rows, strict=True)]
    return [
        Column(name, row["type"], oid < FIRST_USER_OID and not row["type"].startswith(OBJECT), row["operators"])
        for name, oid, row in typed
    ]


def check_names(columns: Iterable[Column]) -> None:
    """A ConfigError for names that a mart cannot have."""
    seen = set()
    for column in columns:
        if column.name == "?column?":
            raise ConfigError.of(Refusal.COLUMN_UNNAMED)
        if column.name.startswith(OURS):
            raise ConfigError.of(Refusal.COLUMN_OF_OURS, column=column.name)
        if column.name in seen:
            raise ConfigError.of(Refusal.COLUMN_TWICE, column=column.name)
        seen.add(column.name)
    if not seen:
        raise ConfigError.of(Refusal.NO_COLUMNS)
