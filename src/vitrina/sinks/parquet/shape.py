"""The shape of a mart of rows: its columns with their types in Parquet, and the SQL that writes a row as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Plan
from vitrina.engine.pieces import column_of
from vitrina.sinks.documents.shape import COMMA, DOCUMENT, Shape, check_key, digest_of
from vitrina.sinks.parquet.types import NO_KEYS, KeptType
from vitrina.sql.describe import Column

IMAGES = 2  # the way in which the shadow tells rows apart


@dataclass(frozen=True)
class RowShape(Shape):
    """What the rows look like. They travel as lines of CSV, typed again on arrival; checks and who compares see them as
    JSON."""

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[Column]) -> Self:
        """From what the query (or the last transform) gives; a ConfigError if Parquet cannot keep it exactly."""
        check_key(columns, plan)
        cls.check_plan(plan)
        shape = cls(tuple(columns), plan.key, plan.cursor or ())
        shape._check_types()
        return shape

    @classmethod
    def check_plan(cls, plan: Plan) -> None:
        """A ConfigError for what the pipeline says and its kind of mart cannot do."""
        del plan

    def type_of(self, name: str) -> KeptType:
        """Of a column."""
        return KeptType.of(next(c for c in self.columns if c.name == name))

    @property
    def fingerprint(self) -> str:
        """Changes when another table is needed, or another shadow."""
        return digest_of([[c.name, self.type_of(c.name).said] for c in self.columns], self.key, self._compared, IMAGES)

    @property
    def _compared(self) -> list[str]:
        """The types by which rows are told apart, in Postgres; of `character(3)` the table has the blanks too."""
        keys = [c for c in self.columns if c.name in self.key]
        return [c.type if self.type_of(c.name).name == "character" else c.unbounded_type for c in keys]

    @property
    def definitions(self) -> str:
        """Of the columns, for people."""
        definitions = [f"{c.name} {self.type_of(c.name).said}{self._required(c.name)}" for c in self.columns]
        return f"({', '.join(definitions)})"

    @property
    def as_text(self) -> list[str]:
        """Columns that lose their type."""
        return [c.name for c in self.columns if self.type_of(c.name).checked]

    def _required(self, name: str) -> str:
        return " NOT NULL" if name in self.key else ""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(c.name for c in self.columns)

    def plain(self, alias: str, names: Sequence[str]) -> sql.Composed:
        """The values of a row, as a line has them."""
        return COMMA.join(self.type_of(name).plain(column_of(alias, name)) for name in names)

    def order(self, alias: str) -> sql.Composable | None:
        """By which the rows of a load should come; None: as they do."""
        del alias
        return None

    def line(self, alias: str, names: Sequence[str]) -> sql.Composed:
        """A row as text."""
        values = self.plain(alias, names)
        return sql.SQL("ROW(NULL::pg_catalog.text, {}, NULL::pg_catalog.text)::pg_catalog.text").format(values)

    def image(self, alias: str) -> sql.Composed:
        """What tells a row from any other of its key: its values as bytes, which cost less than their text."""
        values = COMMA.join(self.type_of(name).imaged(column_of(alias, name)) for name in self.names)
        return sql.SQL("pg_catalog.record_send(ROW({}))").format(values)

    def as_json(self, alias: str) -> sql.Composed:
        """A row for checks, and for who compares documents."""
        fields = COMMA.join(
            sql.SQL("{} AS {}").format(self.type_of(name).value(column_of(alias, name)), sql.Identifier(name))
            for name in self.names
        )
        return sql.SQL("(SELECT pg_catalog.row_to_json(d.*)::text FROM (SELECT {}) AS d)").format(fields)

    def _with_documents(self, kept: Sequence[str], rows: sql.Composable) -> sql.Composed:
        names = COMMA.join(column_of("q", name) for name in kept)
        return sql.SQL("SELECT {}, {} AS {} FROM {} AS q").format(
            names, self.as_json("q"), sql.Identifier(DOCUMENT), rows
        )

    def _check_types(self) -> None:
        for column in self.columns:
            type_ = KeptType.of(column)
            if column.name in self.key and (type_.kept in NO_KEYS or type_.is_list or type_.checked):
                raise ConfigError.of(MartRefusal.PARQUET_KEY, column=column.name, type=column.type)
