"""A Postgres mart: inspected, created when missing, checked for drift."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.policy import split_table
from vitrina.meta.db import Connection, fetch_all, queries, translated
from vitrina.sql.describe import Column

SQL = queries("marts")
STAMP = "updated_at"  # a mart-only column of this name says when a row was last written
FIXED_LENGTH = re.compile(r"(character|bit)\(\d+\)")
VARYING = re.compile(r"((?:character|bit) varying)\(\d+\)")


@dataclass(frozen=True)
class MartColumn:
    """A column of an existing mart."""

    name: str
    type: str
    required: bool
    generated: bool
    collation: str | None
    deterministic: bool


@dataclass(frozen=True)
class Mart:
    """A mart that fits its query: `columns` are written, in the mart's types, the rest is left alone."""

    schema: str
    table: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]  # the query's columns that are written
    types: Mapping[str, str]  # of the mart
    collations: Mapping[str, str | None]
    stamped: bool
    pushable: bool  # keys compare the same way in the query and in the mart

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted."""
        return sql.Identifier(self.schema, self.table)

    def cast(self, column: str, value: sql.Composable, query_type: str) -> sql.Composable:
        """A value of the query in the type (and, for keys, the collation) of the mart.

        Never to a shorter text: an explicit cast would cut silently where the INSERT itself refuses.
        """
        mart_type = self.types[column]
        if mart_type != query_type:
            value = sql.SQL("CAST({} AS {})").format(value, sql.SQL(VARYING.sub(r"\1", mart_type)))
        collation = self.collations.get(column)
        if collation and column in self.key:
            value = sql.SQL("({} COLLATE {})").format(value, sql.SQL(collation))
        return value


def prepare_mart(
    conn: Connection,
    target: str,
    columns: Sequence[Column],
    *,
    key: Sequence[str],
    on_drift: str,
    unwritten: Sequence[str] = (),
    written_before: Mapping[str, str] | None = None,
) -> tuple[Mart, list[str]]:
    """The mart, created or extended if need be, and the statements that did it. Runs inside a fenced step.

    `unwritten`: columns that an existing mart may lack (the cursor). `written_before`: columns of earlier runs.
    """
    schema, table = split_table(target)
    found = inspect(conn, schema, table)
    ddl: list[sql.Composed] = []
    if not found:
        ddl.append(_create_table(schema, table, columns, _required_key(target, key, columns)))
    else:
        ddl += _settle_drift(target, columns, found, on_drift, unwritten, written_before or {})
    with translated():
        for statement in ddl:
            conn.execute(statement)
    if ddl:
        found = inspect(conn, schema, table)
    return _fit(conn, schema, table, columns, found, key), [statement.as_string(conn) for statement in ddl]


def inspect(conn: Connection, schema: str, table: str) -> dict[str, MartColumn]:
    """The columns of a table, by name; empty when there is none."""
    rows = fetch_all(conn, SQL["columns"], {"schema": schema, "table": table})
    return {row["name"]: MartColumn(**row) for row in rows}


def _required_key(target: str, key: Sequence[str], columns: Sequence[Column]) -> Sequence[str]:
    if not key:
        raise ConfigError(f"{target} does not exist and the pipeline names no key", "set key: [column, …]")
    _check_key_columns(key, {c.name for c in columns})
    return key


def _check_key_columns(key: Sequence[str], names: set[str]) -> None:
    missing = [name for name in key if name not in names]
    if missing:
        raise ConfigError(
            f"key column {', '.join(missing)} is not in the query",
            f"the query gives {', '.join(sorted(names))}",
        )


def _create_table(schema: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> sql.Composed:
    definitions = [sql.SQL("{} {}").format(c.identifier, c.sql_type) for c in columns]
    definitions.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    return sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(schema, table), sql.SQL(", ").join(definitions))


def _settle_drift(
    target: str,
    columns: Sequence[Column],
    found: Mapping[str, MartColumn],
    on_drift: str,
    unwritten: Sequence[str],
    before: Mapping[str, str],
) -> list[sql.Composed]:
    names = {c.name for c in columns}
    missing = [c for c in columns if c.name not in found and c.name not in unwritten]
    gone = sorted(name for name in before if name not in names and name in found)
    retyped = [c for c in columns if c.name in before and before[c.name] != c.type and found[c.name].type != c.type]
    if gone:
        drop = ", ".join(f"DROP COLUMN {name}" for name in gone)
        raise ConfigError(
            f"drift: the query no longer gives {', '.join(gone)}, which {target} has",
            f"put it back into the query, or ALTER TABLE {target} {drop}",
        )
    if retyped:
        said = ", ".join(f"{c.name} from {before[c.name]} to {c.type}" for c in retyped)
        raise ConfigError(
            f"drift: the query changed the type of {said}; {target} has {found[retyped[0].name].type}",
            f"cast it back in the query, or ALTER TABLE {target} ALTER COLUMN {retyped[0].name} TYPE {retyped[0].type}",
        )
    if missing and on_drift != "add":
        raise ConfigError(
            f"drift: {target} has no column {', '.join(c.name for c in missing)}",
            f"set on_drift: add, or ALTER TABLE {target} ADD COLUMN {missing[0].name} {missing[0].type}",
        )
    add = sql.SQL("ALTER TABLE {} ADD COLUMN {} {}")
    return [add.format(sql.Identifier(*split_table(target)), c.identifier, c.sql_type) for c in missing]


def _fit(
    conn: Connection,
    schema: str,
    table: str,
    columns: Sequence[Column],
    found: Mapping[str, MartColumn],
    key: Sequence[str],
) -> Mart:
    unique = fetch_all(conn, SQL["unique_keys"], {"schema": schema, "table": table})
    key = key or next((row["columns"] for row in unique if row["primary"]), [])
    where = f"{schema}.{table}"
    if not key:
        raise ConfigError(f"{where} has no primary key and the pipeline names no key", "set key: [column, …]")
    _check_key_columns(key, {c.name for c in columns})
    if not any(sorted(row["columns"]) == sorted(key) for row in unique):
        raise ConfigError(
            f"{where} has no unique index on its key ({', '.join(key)})",
            f"ALTER TABLE {where} ADD PRIMARY KEY ({', '.join(key)})",
        )
    written = [c for c in columns if c.name in found]
    _check_columns(conn, where, written, found)
    stamp = found.get(STAMP)
    return Mart(
        schema,
        table,
        tuple(key),
        tuple(written),
        {name: column.type for name, column in found.items()},
        {name: column.collation for name, column in found.items()},
        stamped=stamp is not None and STAMP not in {c.name for c in columns} and not stamp.generated,
        pushable=all(found[k].deterministic and not found[k].type.endswith("[]") for k in key),
    )


def _check_columns(conn: Connection, where: str, written: Sequence[Column], found: Mapping[str, MartColumn]) -> None:
    names = {c.name for c in written} | {STAMP}
    needed = [name for name, column in found.items() if column.required and name not in names]
    if needed:
        raise ConfigError(f"{where} needs a value for {', '.join(needed)}, which the query does not give")
    computed = [c.name for c in written if found[c.name].generated]
    if computed:
        raise ConfigError(f"column {', '.join(computed)} of {where} is generated", "leave it out of the query")
    for column in written:
        mart_type = found[column.name].type
        if column.type != mart_type and not _fits(conn, column.type, mart_type):
            raise ConfigError(
                f"drift: column {column.name} of {where} is {mart_type}, the query gives {column.type}",
                f"cast it in the query: CAST({column.name} AS {mart_type})",
            )


def _fits(conn: Connection, query_type: str, mart_type: str) -> bool:
    if FIXED_LENGTH.match(mart_type):
        return False
    row = fetch_all(conn, SQL["can_assign"], {"from": query_type, "to": mart_type})[0]
    return bool(row["yes"])
