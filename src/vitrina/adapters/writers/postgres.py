"""A Postgres mart: inspected, created when missing, checked for drift."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

import psycopg
from psycopg import sql

from vitrina.adapters.sealing import Seal, is_sealed
from vitrina.adapters.stage import MOST_COLUMNS, copy_in
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.policy import split_table
from vitrina.meta.db import Connection, fetch_all, queries, translated
from vitrina.sql.describe import FIRST_USER_OID, Column, operator
from vitrina.sql.owned import foreign_owner

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
    operators: str  # the schema of its `=`


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
    operators: Mapping[str, str] = field(default_factory=dict)  # the schema of a column's `=`, unless pg_catalog
    seal: Seal | None = None  # of a mart that brings code of somebody's own along
    watched: "Wanted | None" = None  # of one that brings none, and belongs to somebody else: code may be added

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted."""
        return sql.Identifier(self.schema, self.table)

    def equals(self, column: str) -> sql.Composed:
        """The `=` of a column, by its schema: by name alone, somebody else's might fit better."""
        return operator(self.operators.get(column, "pg_catalog"), "=")

    def same_key(self, left: str, right: str) -> sql.Composed:
        """Whether two aliases have the same key."""
        return sql.SQL(" AND ").join(
            sql.SQL("{}.{} {} {}.{}").format(sql.SQL(left), name, self.equals(k), sql.SQL(right), name)
            for k in self.key
            for name in [sql.Identifier(k)]
        )

    def takes(self, columns: Sequence[Column]) -> bool:
        """Whether rows of these columns can go into it as they are: nothing is cast, left out or stamped."""
        same = all(self.types[c.name] == c.type for c in self.columns)
        return same and tuple(columns) == self.columns and not self.stamped and self.seal is None

    def copy_in(self, conn: Connection, copy_format: str) -> AbstractContextManager[psycopg.Copy]:
        """COPY into the columns that are written."""
        self.hold(conn)
        return copy_in(conn, self.identifier, [c.name for c in self.columns], copy_format)

    def hold(self, conn: Connection) -> None:
        """Of a mart of somebody else's: since the run began no code was added, and none is before this transaction
        ends."""
        if self.watched is None:
            return
        with translated():
            conn.execute(sql.SQL("LOCK TABLE {} IN ROW EXCLUSIVE MODE").format(self.identifier))
        if is_sealed(conn, self.watched.target, self.watched.trusted):
            raise RetryableError(f"code was added to {self.watched.target} during the run; it is checked anew")

    def cast(self, column: str, value: sql.Composable, query_type: str) -> sql.Composable:
        """A value of the query in the type (and, for keys, the collation) of the mart.

        Never to a shorter text: an explicit cast would cut silently where the INSERT itself refuses.
        """
        mart_type = self.types[column]
        if mart_type != query_type:
            value = sql.SQL("CAST({} AS {})").format(value, sql.SQL(_plain(mart_type)))
        collation = self.collations.get(column)
        if collation and column in self.key:
            value = sql.SQL("({} COLLATE {})").format(value, sql.SQL(collation))
        return value


@dataclass(frozen=True)
class Wanted:
    """What a pipeline wants of its mart."""

    target: str
    columns: Sequence[Column]
    key: Sequence[str]
    on_drift: str
    unwritten: Sequence[str] = ()  # columns that an existing mart may lack: the cursor
    written_before: Mapping[str, str] = field(default_factory=dict)  # columns of earlier runs, and their types
    trusted: Sequence[str] = ()  # roles whose code may run as the mart is written
    scratch: str = ""  # what the names of the run's scratch tables end with


def prepare_mart(conn: Connection, wanted: Wanted) -> tuple[Mart, list[str]]:
    """The mart, created or extended if need be, and the statements that did it. Runs inside a fenced step."""
    schema, table = split_table(wanted.target)
    check_width(wanted.columns)
    check_types(conn, wanted.columns)
    sealed = is_sealed(conn, wanted.target, wanted.trusted)
    found = inspect(conn, schema, table)
    ddl = _missing_ddl(wanted, found)
    with translated():
        for statement in ddl:
            conn.execute(statement)
    mart = _fit(conn, wanted, inspect(conn, schema, table) if ddl else found)
    seal = Seal(mart.identifier, wanted.scratch) if sealed else None
    watched = wanted if not sealed and foreign_owner(conn, schema, table) else None
    return replace(mart, seal=seal, watched=watched), [statement.as_string(conn) for statement in ddl]


def check_mart(conn: Connection, wanted: Wanted) -> list[str]:
    """The statements that `prepare_mart` would run; nothing is changed. A ConfigError if the mart does not fit."""
    check_width(wanted.columns)
    check_types(conn, wanted.columns)
    found = inspect(conn, *split_table(wanted.target))
    is_sealed(conn, wanted.target, wanted.trusted)
    ddl = _missing_ddl(wanted, found)
    if not ddl:
        _fit(conn, wanted, found)
    return [statement.as_string(conn) for statement in ddl]


def inspect(conn: Connection, schema: str, table: str) -> dict[str, MartColumn]:
    """The columns of a table, by name; empty when there is none."""
    rows = fetch_all(conn, SQL["columns"], {"schema": schema, "table": table})
    return {row["name"]: MartColumn(**row) for row in rows}


def check_width(columns: Sequence[Column]) -> None:
    """A ConfigError for more columns than can be staged: a run may have to at any time."""
    if len(columns) > MOST_COLUMNS:
        raise ConfigError(
            f"the query gives {len(columns):,} columns, and {MOST_COLUMNS:,} are the most: a table of Postgres has"
            " 1,600, and Vitrina needs one of them where rows are staged",
            "leave some out, put several into one jsonb or array, or make two marts with the same key",
        )


def check_types(conn: Connection, columns: Sequence[Column]) -> None:
    """A ConfigError for a type that the warehouse lacks, or whose handling would run code that anybody may define."""
    for column in columns:
        if not column.builtin and not _fits(conn, column.type, column.type):
            raise ConfigError(
                f"column {column.name} is of type {column.type}, which the warehouse does not have",
                f"create it there, or cast it in the query: CAST({column.name} AS text)",
            )
        if not column.builtin:
            _refuse_foreign_code(conn, column, column.type)


def _missing_ddl(wanted: Wanted, found: Mapping[str, MartColumn]) -> list[sql.Composed]:
    if found:
        return _settle_drift(wanted, found)
    key = _required_key(wanted.target, wanted.key, wanted.columns)
    return [_create_table(*split_table(wanted.target), wanted.columns, key)]


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


def _settle_drift(wanted: Wanted, found: Mapping[str, MartColumn]) -> list[sql.Composed]:
    target, columns, before = wanted.target, wanted.columns, wanted.written_before
    names = {c.name for c in columns}
    missing = [c for c in columns if c.name not in found and c.name not in wanted.unwritten]
    gone = sorted(name for name in before if name not in names and name in found)
    kept = [c for c in columns if c.name in before and c.name in found]
    retyped = [c for c in kept if c.type != found[c.name].type and not _is_same_type(c.type, before[c.name])]
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
    if missing and wanted.on_drift != "add":
        raise ConfigError(
            f"drift: {target} has no column {', '.join(c.name for c in missing)}",
            f"set on_drift: add, or ALTER TABLE {target} ADD COLUMN {missing[0].name} {missing[0].type}",
        )
    add = sql.SQL("ALTER TABLE {} ADD COLUMN {} {}")
    return [add.format(sql.Identifier(*split_table(target)), c.identifier, c.sql_type) for c in missing]


def _is_same_type(now: str, before: str) -> bool:
    """Types of extensions were once noted without their schema."""
    return now == before or now.endswith(f".{before}")


def _fit(conn: Connection, wanted: Wanted, found: Mapping[str, MartColumn]) -> Mart:
    schema, table = split_table(wanted.target)
    columns = wanted.columns
    unique = fetch_all(conn, SQL["unique_keys"], {"schema": schema, "table": table})
    key = wanted.key or next((row["columns"] for row in unique if row["primary"]), [])
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
        pushable=all(_is_pushable(c.type, found[c.name]) for c in written if c.name in key),
        operators={name: column.operators for name, column in found.items()},
    )


def _is_pushable(query_type: str, column: MartColumn) -> bool:
    """Whether a key found in the mart can be looked up in the query: the same values, compared in the same way."""
    same = query_type == column.type or {_plain(query_type), _plain(column.type)} == {"text", "character varying"}
    return same and column.deterministic and not column.type.endswith("[]")


def _plain(type_: str) -> str:
    return VARYING.sub(r"\1", type_)


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
        if column.type != mart_type:
            _refuse_foreign_code(conn, column, mart_type)


def _fits(conn: Connection, query_type: str, mart_type: str) -> bool:
    if FIXED_LENGTH.match(mart_type) and query_type != mart_type:
        return False
    rows = fetch_all(conn, SQL["can_assign"], {"from": query_type, "to": mart_type})
    return any(row["yes"] for row in rows)  # no row: only the source has such a type


def _refuse_foreign_code(conn: Connection, column: Column, mart_type: str) -> None:
    """What converts or compares values runs in statements that write: never a function that anybody could define."""
    types = {"from": column.type, "to": mart_type, "first_user_oid": FIRST_USER_OID}
    for row in fetch_all(conn, SQL["foreign_code"], types):
        raise ConfigError(
            f"column {column.name} is of type {column.type}, which goes through the user-defined {row['function']}",
            f"cast it in the query, where it runs as the reader: CAST({column.name} AS …)",
        )
