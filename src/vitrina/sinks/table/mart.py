"""A Postgres mart: inspected, created when missing, checked for drift."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.policy import split_table
from vitrina.engine.mart import STAMP, Mart, Wanted, without_length
from vitrina.engine.sealing import Seal, is_sealed
from vitrina.engine.stage import MOST_COLUMNS
from vitrina.engine.types import check_types, fits, refuse_foreign_code
from vitrina.meta.db import Connection, fetch_all, queries, translated
from vitrina.sql.describe import Column
from vitrina.sql.owned import is_open_to_others
from vitrina.transforms import Row

SQL = queries("marts")


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

    @classmethod
    def of(cls, column: Column) -> "MartColumn":
        """As it is once it is created."""
        return cls(column.name, column.type, False, False, None, True, column.operators)


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
    mart = _fit(conn, wanted, inspect(conn, schema, table) if ddl else found, _unique_keys(conn, wanted))
    seal = Seal(mart.identifier, wanted.scratch) if sealed else None
    watched = wanted if not sealed and is_open_to_others(conn, schema, table) else None
    return replace(mart, seal=seal, watched=watched, is_new=not found), [statement.as_string(conn) for statement in ddl]


@dataclass(frozen=True)
class Foreseen:
    """A mart as the next run would have it."""

    mart: Mart
    ddl: list[str]  # what the run would execute first
    exists: bool


def foresee_mart(conn: Connection, wanted: Wanted) -> Foreseen:
    """The same as `prepare_mart` would give, and nothing is changed. A ConfigError if the mart does not fit."""
    check_width(wanted.columns)
    check_types(conn, wanted.columns)
    sealed, found = is_sealed(conn, wanted.target, wanted.trusted), inspect(conn, *split_table(wanted.target))
    ddl = _missing_ddl(wanted, found)
    new = [c for c in wanted.columns if c.name not in found and (not found or c.name not in wanted.unwritten)]
    unique = _unique_keys(conn, wanted) if found else [{"columns": wanted.key, "primary": True}]
    mart = _fit(conn, wanted, found | {c.name: MartColumn.of(c) for c in new}, unique)
    seal = Seal(mart.identifier, wanted.scratch) if sealed else None
    return Foreseen(replace(mart, seal=seal), [statement.as_string(conn) for statement in ddl], bool(found))


def inspect(conn: Connection, schema: str, table: str) -> dict[str, MartColumn]:
    """The columns of a table, by name; empty when there is none."""
    rows = fetch_all(conn, SQL["columns"], {"schema": schema, "table": table})
    return {row["name"]: MartColumn(**row) for row in rows}


def check_width(columns: Sequence[Column]) -> None:
    """A ConfigError for more columns than can be staged: a run may have to at any time."""
    if len(columns) > MOST_COLUMNS:
        raise ConfigError.of(MartRefusal.TOO_MANY_COLUMNS, count=len(columns), most=MOST_COLUMNS)


def _missing_ddl(wanted: Wanted, found: Mapping[str, MartColumn]) -> list[sql.Composed]:
    if found:
        return _resolve_drift(wanted, found)
    key = _required_key(wanted.target, wanted.key, wanted.columns)
    return [_create_table(*split_table(wanted.target), wanted.columns, key)]


def _required_key(target: str, key: Sequence[str], columns: Sequence[Column]) -> Sequence[str]:
    if not key:
        raise ConfigError.of(MartRefusal.NO_KEY_OF_NEW, target=target)
    _check_key_columns(key, {c.name for c in columns})
    return key


def _check_key_columns(key: Sequence[str], names: set[str]) -> None:
    missing = [name for name in key if name not in names]
    if missing:
        raise ConfigError.of(MartRefusal.KEY_NOT_IN_QUERY, columns=missing, given=sorted(names))


def _create_table(schema: str, table: str, columns: Sequence[Column], key: Sequence[str]) -> sql.Composed:
    definitions = [sql.SQL("{} {}").format(c.identifier, c.sql_type) for c in columns]
    definitions.append(sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    return sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(schema, table), sql.SQL(", ").join(definitions))


def _resolve_drift(wanted: Wanted, found: Mapping[str, MartColumn]) -> list[sql.Composed]:
    target, columns, before = wanted.target, wanted.columns, wanted.written_before
    names = {c.name for c in columns}
    missing = [c for c in columns if c.name not in found and c.name not in wanted.unwritten]
    gone = sorted(name for name in before if name not in names and name in found)
    kept = [c for c in columns if c.name in before and c.name in found]
    retyped = [c for c in kept if c.type != found[c.name].type and not _is_same_type(c.type, before[c.name])]
    if gone:
        drop = ", ".join(f"DROP COLUMN {name}" for name in gone)
        raise ConfigError.of(MartRefusal.COLUMNS_GONE, columns=gone, target=target, drop=drop)
    if retyped:
        said = ", ".join(f"{c.name} from {before[c.name]} to {c.type}" for c in retyped)
        raise ConfigError.of(
            MartRefusal.COLUMNS_RETYPED,
            changes=said,
            target=target,
            mart_type=found[retyped[0].name].type,
            column=retyped[0].name,
            type=retyped[0].type,
        )
    if missing and wanted.on_drift != "add":
        raise ConfigError.of(
            MartRefusal.COLUMNS_MISSING,
            target=target,
            columns=[c.name for c in missing],
            column=missing[0].name,
            type=missing[0].type,
        )
    add = sql.SQL("ALTER TABLE {} ADD COLUMN {} {}")
    return [add.format(sql.Identifier(*split_table(target)), c.identifier, c.sql_type) for c in missing]


def _is_same_type(now: str, before: str) -> bool:
    """Types of extensions were once noted without their schema."""
    return now == before or now.endswith(f".{before}")


def _unique_keys(conn: Connection, wanted: Wanted) -> list[Row]:
    schema, table = split_table(wanted.target)
    return fetch_all(conn, SQL["unique_keys"], {"schema": schema, "table": table})


def _fit(conn: Connection, wanted: Wanted, found: Mapping[str, MartColumn], unique: Sequence[Row]) -> Mart:
    schema, table = split_table(wanted.target)
    columns = wanted.columns
    key = wanted.key or next((row["columns"] for row in unique if row["primary"]), [])
    where = f"{schema}.{table}"
    if not key:
        raise ConfigError.of(MartRefusal.NO_KEY_OF_TABLE, target=where)
    _check_key_columns(key, {c.name for c in columns})
    if not any(sorted(row["columns"]) == sorted(key) for row in unique):
        raise ConfigError.of(MartRefusal.NO_UNIQUE_INDEX, target=where, key=list(key))
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
    same = query_type == column.type or {without_length(query_type), without_length(column.type)} == {
        "text",
        "character varying",
    }
    return same and column.deterministic and not column.type.endswith("[]")


def _check_columns(conn: Connection, where: str, written: Sequence[Column], found: Mapping[str, MartColumn]) -> None:
    names = {c.name for c in written} | {STAMP}
    needed = [name for name, column in found.items() if column.required and name not in names]
    if needed:
        raise ConfigError.of(MartRefusal.VALUE_NEEDED, target=where, columns=needed)
    computed = [c.name for c in written if found[c.name].generated]
    if computed:
        raise ConfigError.of(MartRefusal.COLUMN_GENERATED, columns=computed, target=where)
    for column in written:
        mart_type = found[column.name].type
        if column.type != mart_type and not fits(conn, column.type, mart_type):
            raise ConfigError.of(
                MartRefusal.COLUMN_OTHERWISE, column=column.name, target=where, mart_type=mart_type, type=column.type
            )
        if column.type != mart_type:
            refuse_foreign_code(conn, column, mart_type)
