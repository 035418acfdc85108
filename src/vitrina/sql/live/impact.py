"""The verdict on each table occurrence, and the query that finds the keys a change of it touches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from psycopg import sql

from vitrina.domain.findings import Code
from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because, Data
from vitrina.sql.describe import Column
from vitrina.sql.live.blocks import Table
from vitrina.sql.live.exprs import Col, Writer, columns
from vitrina.sql.live.paths import Path

COMMA = sql.SQL(", ")
WRITTEN_ALIKE = {"uuid", "smallint", "integer", "bigint"}  # types in which equal values have the same text
CHANGED = "changed"  # the relation of old and new images, in our impact queries and in the user's


@dataclass(frozen=True)
class Occurrence:
    """A table where the query reads it, and what a change of one of its rows means for the mart."""

    table: str
    alias: str
    code: Code  # the verdict, as a finding says it
    data: Data = field(hash=False)
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # whose old values the impact query needs
    reads: tuple[str, ...] = ()  # the tables that the impact query joins in their current state
    selects: tuple[sql.Composable, ...] = field(default=(), repr=False)  # over `changed`; together all keys
    key_in_row: tuple[Column, ...] = ()  # of a changed row: they are the key itself; none if it takes more to tell it

    @property
    def verdict(self) -> Literal["keys", "everything"]:
        """Whether the keys that a change touches can be told."""
        return "everything" if self.code in (Code.REFRESHES_EVERYTHING, Code.OLD_VALUE_UNTOLD) else "keys"

    @property
    def reason(self) -> Because:
        """The verdict in words, and what would better it if little is needed."""
        if self.code is Code.OLD_VALUE_UNTOLD:
            return Reason.OLD_VALUE_UNTOLD.of(**self.data)
        return Reason.EVERYTHING.of(**self.data) if self.verdict == "everything" else Because(self.code, self.data)

    def impact(self, images: sql.Composable) -> sql.Composed:
        """SELECT DISTINCT the touched keys; `images` stands after FROM and gives old and new rows."""
        if self.verdict == "everything":
            raise ValueError(f"a change in {self.table} refreshes everything: it has no impact query")
        names = [sql.Identifier(name) for name in self.key]
        return sql.SQL(
            "WITH {changed} AS (SELECT * FROM {images} AS c)"
            " SELECT DISTINCT {names} FROM (\n{selects}\n) AS touched WHERE {given}"
        ).format(
            changed=sql.Identifier(CHANGED),
            images=images,
            names=COMMA.join(names),
            selects=sql.SQL("\nUNION ALL\n").join(self.selects),
            given=sql.SQL(" AND ").join(sql.SQL("{} IS NOT NULL").format(name) for name in names),
        )


def everything(table: str, alias: str, reason: Because) -> Occurrence:
    """A table whose changes may touch any key."""
    return Occurrence(table, alias, Code.REFRESHES_EVERYTHING, {"table": table, "reason": reason})


def select_of(path: Path, tables: Mapping[str, Table], types: Mapping[int, str]) -> sql.Composed:
    """The SELECT of one path, over `changed` and the tables that it joins."""
    aliases = {place: f"t{number}" for number, place in enumerate(path.joined)}
    writer = Writer(aliases, types)
    sources = [sql.SQL("{} AS t0").format(sql.Identifier(CHANGED))]
    for place in path.joined[1:]:
        table = tables[place]
        only = sql.SQL("" if table.inherits else "ONLY ")
        name = sql.Identifier(table.info.schema, table.info.name)
        sources.append(sql.SQL("{}{} AS {}").format(only, name, sql.Identifier(aliases[place])))
    values = [sql.SQL("{} AS {}").format(writer.write(expr), sql.Identifier(name)) for name, expr in path.keys]
    select = sql.SQL("SELECT {} FROM {}").format(COMMA.join(values), COMMA.join(sources))
    if path.conditions:
        select += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(map(writer.write, path.conditions))
    return select


def straight_of(paths: Sequence[Path], key: Sequence[str], types: Mapping[int, str]) -> tuple[Column, ...]:
    """The columns that are the key, if that is all there is to it, and if the text of a key tells it apart."""
    if len(paths) > 1 or len(paths[0].joined) > 1 or paths[0].conditions:
        return ()
    values = dict(paths[0].keys)
    found = [Column(v.name, types[v.type]) for name in key for v in [values[name]] if isinstance(v, Col)]
    return tuple(found) if len(found) == len(key) and {column.type for column in found} <= WRITTEN_ALIKE else ()


def columns_of(paths: Sequence[Path]) -> tuple[str, ...]:
    """The columns of the changed occurrence that some paths need."""
    exprs = [expr for path in paths for expr in (*(value for _, value in path.keys), *path.conditions)]
    place = paths[0].joined[0]
    return tuple(sorted({col.name for expr in exprs for col in columns(expr) if col.place == place}))
