"""Requests that are no runs: what may be asked of a runner, and with which parameters."""

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vitrina.domain.errors import ConfigError
from vitrina.domain.fields import wrong_fields
from vitrina.domain.refusals import Refusal

AFTER_REPAIR = "repair"  # who asks for the comparison after one


class RequestKind(StrEnum):
    """What is asked for."""

    RECONCILE = "reconcile"
    PREVIEW = "preview"
    CAPTURE = "capture"
    ALERT = "alert"


class RequestParams(BaseModel):
    """Parameters of a request; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Build from untrusted values; a ConfigError names each wrong one."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError.of(Refusal.WRONG_PARAMETERS, problems=wrong_fields(error)) from error


class ReconcileParams(RequestParams):
    """How many examples of each difference to keep, and whose minimum and maximum to show."""

    sample: int = Field(default=20, ge=0, le=1_000)
    control_field: str | None = None  # the incremental key, else the key's first column


class PreviewParams(RequestParams):
    """How many rows to show; of the stored pipeline, or of a configuration that is not saved."""

    limit: int = Field(default=20, ge=1, le=200)
    pipeline: dict[str, Any] | None = None
    mart: bool = False  # what the mart of the stored one holds, and not what its query gives


class CaptureParams(RequestParams):
    """A capture to be installed or removed at a source: only said, until `confirmed` names what was said."""

    action: Literal["install", "remove"]
    source: str
    kind: Literal["wal", "trigger"] = "wal"
    tables: list[str] = []  # schema.table; none: those of the live pipelines
    publication: str | None = None
    slot: str | None = Field(default=None, pattern="^[a-z0-9_]{1,63}$")
    name: str | None = Field(default=None, pattern="^vitrina_[a-z0-9_]{1,50}$")  # of a new one, as it was said
    confirmed: str | None = None  # the digest of what was said


class AlertParams(RequestParams):
    """A destination of alerts that is to be told that this is a test, and who wanted it."""

    destination: str
    asked_by: str = "somebody"
