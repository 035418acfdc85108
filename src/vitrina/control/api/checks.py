"""Checks as the API shows them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field

from vitrina.control.services.checks import CheckStanding, said_of
from vitrina.domain.checks import Answer, Effect

Keys = list[dict[str, str]]


class CheckOut(BaseModel):
    """A check of a pipeline, and how it stands."""

    name: str
    kind: Literal["not_null", "accepted_values", "condition", "unique", "row_count", "empty"]
    effect: Effect
    asks: str = Field(description="What is asked, in a line.")
    outcome: Answer | None = Field(
        description="When it was asked last: kept; broken, and published; blocked; unasked: it failed. Null: not yet."
    )
    rows: int = Field(description="That break it; of row_count, how many the mart has.")
    keys: Keys = Field(description="Of a few of these rows.")
    error: str | None = Field(description="Why it could not be asked.")
    said: str = Field(description="The outcome in words.")
    since: datetime | None = Field(description="It stands like this since then.")
    asked_at: datetime | None
    run_id: int | None = Field(description="The run that asked it last.")

    @classmethod
    def of(cls, found: CheckStanding) -> Self:
        """From the service's."""
        keys = [dict(key) for key in found.keys]
        return cls(**(vars(found) | {"keys": keys, "said": found.said}))


class RunCheckOut(BaseModel):
    """What came of a check in a run, if it was not kept."""

    name: str
    effect: Effect
    outcome: Answer
    rows: int = Field(description="That break it, of all batches of the run together.")
    keys: Keys = Field(description="Of a few of these rows.")
    error: str | None
    said: str = Field(description="The outcome in words.")

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From the meta-store."""
        return cls(**{name: row[name] for name in cls.model_fields if name != "said"}, said=said_of(row))
