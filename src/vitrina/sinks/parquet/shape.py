"""The shape of a mart of rows: its columns with their types in Parquet, and the SQL that writes a row as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Plan
from vitrina.sinks.documents.shape import COMMA, DOCUMENT, Shape, check_key, digest_of
from vitrina.sinks.parquet.types import NO_KEYS, KeptType
from vitrina.sql.describe import Column


@dataclass(frozen=True)
class RowShape(Shape):
    """What the rows look like. They travel as JSON, typed again on arrival."""

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
        """Changes when another table is needed."""
        return digest_of([[c.name, self.type_of(c.name).said] for c in self.columns], self.key, self._compared)

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

    def key_text(self, alias: str) -> sql.Composed:
        """A row that has nothing but its key, as JSON: for a delete."""
        fields = [
            sql.SQL("{} AS {}").format(
                self.type_of(name).value(sql.SQL("{}.{}").format(sql.SQL(alias), sql.Identifier(name))),
                sql.Identifier(name),
            )
            for name in self.key
        ]
        return sql.SQL("(SELECT pg_catalog.row_to_json(d.*)::text FROM (SELECT {}) AS d)").format(COMMA.join(fields))

    def _with_documents(self, kept: Sequence[str], rows: sql.Composable) -> sql.Composed:
        fields = [
            sql.SQL("{} AS {}").format(self.type_of(c.name).value(sql.SQL("q.{}").format(c.identifier)), c.identifier)
            for c in self.columns
        ]
        text = "SELECT {}, pg_catalog.row_to_json(d.*)::text AS {} FROM {} AS q CROSS JOIN LATERAL (SELECT {}) AS d"
        names = COMMA.join(sql.SQL("q.{}").format(sql.Identifier(name)) for name in kept)
        return sql.SQL(text).format(names, sql.Identifier(DOCUMENT), rows, COMMA.join(fields))

    def _check_types(self) -> None:
        for column in self.columns:
            type_ = KeptType.of(column)
            if column.name in self.key and (type_.kept in NO_KEYS or type_.is_list or type_.checked):
                raise ConfigError(
                    f"key column {column.name} is {column.type}, by which rows in Parquet cannot be told apart",
                    f"cast it in the query: CAST({column.name} AS text)",
                )
