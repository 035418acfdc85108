"""The shape of a lake table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.partitions import AS_IS, TIMES, PartitionField
from vitrina.domain.pipeline import Plan
from vitrina.domain.refusals import Refusal
from vitrina.engine.pieces import COMMA, column_of
from vitrina.sinks.documents.shape import digest_of
from vitrina.sinks.parquet.shape import RowShape
from vitrina.sql.describe import Column

DAYS = ("date", "timestamp", "timestamptz")
NUMBERS = ("int", "long", "decimal")
# What takes which types, by Iceberg's names for them without their digits.
TAKEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(TIMES, DAYS),
    "hour": ("timestamp", "timestamptz"),
    "bucket": (*NUMBERS, *DAYS, "time", "string", "uuid", "binary"),
    "truncate": (*NUMBERS, "string"),
    AS_IS: (*NUMBERS, *DAYS, "time", "string", "uuid", "boolean"),
}
WIDTHS = {"bucket": 16, "truncate": 4}  # for examples
ORDERS = {  # what rows that belong together have in common, in Postgres; a number that is cut is in order as it is
    **{how: f"pg_catalog.date_trunc('{how}', {{}})" for how in TIMES},
    "truncate": 'pg_catalog.left({}::pg_catalog.text, {}) COLLATE pg_catalog."C"',
    AS_IS: "{}",
}


@dataclass(frozen=True)
class LakeShape(RowShape):
    """Rows in a table of Iceberg."""

    divided: tuple[PartitionField, ...] = ()

    @classmethod
    def of(cls, plan: Plan, columns: Sequence[Column]) -> Self:
        """Divided as the pipeline says."""
        return cls.undivided(plan, columns).divided_by(plan.partition_by)

    @classmethod
    def undivided(cls, plan: Plan, columns: Sequence[Column]) -> Self:
        """Whatever the pipeline says."""
        return super().of(plan, columns)

    def divided_by(self, texts: Sequence[str]) -> Self:
        """A ConfigError for what Iceberg does not divide so."""
        fields = tuple(map(PartitionField.parse, texts))
        for field in fields:
            self._check(field)
        return replace(self, divided=fields)

    @classmethod
    def check_plan(cls, plan: Plan) -> None:
        """What a table of a lake cannot do."""
        if plan.publish == "atomic":
            raise ConfigError.of(MartRefusal.LAKE_NOT_ATOMIC)
        if plan.adopt:
            raise ConfigError.of(MartRefusal.FOR_AN_INDEX, fields=["adopt"], target=plan.target)

    @property
    def fingerprint(self) -> str:
        """Another division is another table."""
        found = super().fingerprint
        return digest_of(found, [str(field) for field in self.divided]) if self.divided else found

    @property
    def division(self) -> str:
        """For people, as Spark writes it."""
        return f" PARTITIONED BY ({', '.join(map(str, self.divided))})" if self.divided else ""

    def order(self, alias: str) -> sql.Composable | None:
        """By which rows of a load come that belong to the same files: few files are open at a time. No bucket: only
        Iceberg knows it."""
        parts = [self._order_of(field, alias) for field in self.divided if field.how in ORDERS]
        return COMMA.join(parts) if parts else None

    def _order_of(self, field: PartitionField, alias: str) -> sql.Composable:
        column, kept = column_of(alias, field.column), self.type_of(field.column).kept
        if field.how == AS_IS or kept.startswith(NUMBERS):
            return column
        if kept == "timestamptz":
            column = sql.SQL("pg_catalog.timezone('UTC', {})").format(column)
        return sql.SQL(ORDERS[field.how]).format(column, *([] if field.width is None else [sql.Literal(field.width)]))

    def _check(self, field: PartitionField) -> None:
        if field.column not in self.names:
            raise ConfigError.of(Refusal.PARTITION_COLUMN, column=field.column, columns=self.names)
        ways = [how for how in TAKEN if self._is_taken(how, field.column)]
        if field.how in ways:
            return
        type_ = next(c.type for c in self.columns if c.name == field.column)
        said: dict[str, Any] = {"field": str(field), "column": field.column, "type": type_}
        if not ways:
            raise ConfigError.of(Refusal.PARTITION_NO_TYPE, **said)
        examples = [str(PartitionField(how, field.column, WIDTHS.get(how))) for how in ways]
        raise ConfigError.of(Refusal.PARTITION_TYPE, **said, ways=examples)

    def _is_taken(self, how: str, column: str) -> bool:
        type_ = self.type_of(column)
        return not type_.is_list and not type_.checked and type_.kept.partition("(")[0] in TAKEN[how]
