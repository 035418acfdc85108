"""Checks: what a pipeline asks of its mart, before rows are published or after."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from vitrina.domain.faults import Rule

Answer: TypeAlias = Literal["kept", "broken", "blocked", "unasked"]
Effect: TypeAlias = Literal["block", "warn"]
Kind: TypeAlias = Literal["not_null", "accepted_values", "condition", "unique", "row_count", "empty"]
BY_ROW: tuple[Kind, ...] = ("not_null", "accepted_values", "condition")  # each row tells by itself
WHOLE: tuple[Kind, ...] = ("unique", "row_count", "empty")  # only all of the mart tells
KINDS = (*BY_ROW, *WHOLE)
MOST = 100  # of a pipeline


class RowCount(BaseModel):
    """How many rows a mart may have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError(Rule.NO_RANGE.of())
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(Rule.RANGE_TURNED.of())
        return self


class Check(BaseModel):
    """One check: a name, what is asked, and what happens when the answer is no."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100, description="Unique among the checks of the pipeline.")
    effect: Effect = Field(default="block", description="block: nothing of the batch is published. warn: it is told.")
    not_null: tuple[str, ...] = Field(default=(), description="Columns that are never NULL.")
    accepted_values: dict[str, tuple[bool | int | float | str, ...]] = Field(
        default={}, description="By column, the values that it may have; NULL is for not_null."
    )
    condition: str | None = Field(default=None, description="An expression over a row that is never false.")
    unique: tuple[str, ...] = Field(default=(), description="Columns of which no two rows have the same values.")
    row_count: RowCount | None = Field(default=None, description="How many rows the mart may have.")
    empty: str | None = Field(default=None, description="A SELECT that gives no rows; `mart` is the mart.")

    @model_validator(mode="after")
    def _asks_one_thing(self) -> Self:
        asked = [kind for kind in KINDS if getattr(self, kind)]
        if not asked:
            raise ValueError(Rule.ASKS_NOTHING.of(kinds=KINDS))
        if len(asked) > 1:
            raise ValueError(Rule.ASKS_SEVERAL.of(kinds=KINDS, asked=asked))
        empty = [column for column, values in self.accepted_values.items() if not values]
        if empty:
            raise ValueError(Rule.NO_VALUES.of(column=empty[0]))
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        """What is left out says nothing."""
        said: dict[str, Any] = handler(self)
        kept = {"name", "effect", self.kind}
        return {name: value for name, value in said.items() if name in kept}

    @property
    def kind(self) -> Kind:
        """What it asks."""
        return next(kind for kind in KINDS if getattr(self, kind))

    @property
    def is_by_row(self) -> bool:
        """Whether each row tells by itself."""
        return self.kind in BY_ROW

    @property
    def blocks(self) -> bool:
        """Whether nothing is published that breaks it."""
        return self.effect == "block"

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that it names, apart from those in SQL of its own."""
        return (*self.not_null, *self.accepted_values, *self.unique)

    @property
    def asks(self) -> str:
        """In a line, for people."""
        if self.accepted_values:
            return "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in self.accepted_values.items())
        if self.row_count:
            least, most = self.row_count.at_least, self.row_count.at_most
            return " … ".join("" if end is None else f"{end:,}" for end in (least, most)).strip()
        return self.condition or self.empty or ", ".join(self.not_null or self.unique)


def said(answer: str | None, kind: str, rows: int, keys: Sequence[Mapping[str, str]], error: str | None) -> str:
    """What came of asking a check, for people."""
    if answer is None:
        return "has not been asked yet"
    if answer == "kept":
        return "is kept"
    if error:
        return f"cannot be asked: {error}"
    if kind == "row_count":
        return f"is broken: the mart has {rows:,} rows"
    named = "; ".join(", ".join(f"{name} = {value}" for name, value in key.items()) for key in keys if key)
    return f"is broken by {rows:,} row{'s' * (rows != 1)}{f': {named}' if named else ''}"
