"""The shape of a mart in ClickHouse: its columns, by name and type."""

from collections.abc import Sequence
from typing import Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Plan
from vitrina.sinks.clickhouse.tables import OURS, Sheet, TypedColumn
from vitrina.sinks.clickhouse.types import Kind
from vitrina.sinks.documents.shape import Shape, check_key, digest_of
from vitrina.sql.describe import Column


class TypedShape(Shape):
    """Documents whose fields are columns of a table."""

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[Column]) -> Self:
        """A ConfigError names the column that ClickHouse cannot keep exactly, and what to write instead."""
        check_key(columns, plan)
        for column in columns:
            _check_name(column.name)
            Kind.of(column.type).check(column.name)
        return cls(tuple(columns), plan.key, plan.cursor or ())

    @property
    def sheet(self) -> Sheet:
        """What its tables have."""
        return Sheet(tuple(TypedColumn(c.name, c.type) for c in self.columns), self.key)

    @property
    def fingerprint(self) -> str:
        """Changes when another table is needed."""
        return digest_of([c.name for c in self.columns], self.sheet.definitions, self.sheet.order)

    def value(self, column: Column) -> sql.Composable:
        """By ClickHouse's types."""
        return Kind.of(column.type).value(sql.SQL("q.{}").format(column.identifier))

    def checked_type(self, type_: str) -> str:
        """What is no type of JSON is text."""
        return checked_type(type_)


def checked_type(type_: str) -> str:
    """As which type a check sees a value: its own, or the text that the mart has."""
    kind = Kind.of(type_)
    return type_ if kind.is_kept else "text[]" if kind.field.is_array else "text"


def _check_name(name: str) -> None:
    if not name.strip() or "." in name or name.startswith(OURS):
        raise ConfigError.of(MartRefusal.CLICKHOUSE_NAME, column=name, prefix=OURS)
