"""Requests that are no runs: what may be asked of a runner, and with which parameters."""

from enum import StrEnum
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vitrina.domain.errors import ConfigError
from vitrina.domain.fields import wrong_fields


class RequestKind(StrEnum):
    """What is asked for."""

    RECONCILE = "reconcile"
    PREVIEW = "preview"


class RequestParams(BaseModel):
    """Parameters of a request; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def parse(cls, values: dict[str, Any]) -> Self:
        """Build from untrusted values; a ConfigError names each wrong one."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"the request's parameters: {wrong_fields(error)}") from error


class ReconcileParams(RequestParams):
    """How many examples of each difference to keep, and whose minimum and maximum to show."""

    sample: int = Field(default=20, ge=0, le=1_000)
    control_field: str | None = None  # the incremental key, else the key's first column


class PreviewParams(RequestParams):
    """How many rows to show; of the stored pipeline, or of a configuration that is not saved."""

    limit: int = Field(default=20, ge=1, le=200)
    pipeline: dict[str, Any] | None = None
