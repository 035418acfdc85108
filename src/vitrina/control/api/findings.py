"""A finding as JSON."""

from typing import Any, Self

from pydantic import BaseModel, Field

from vitrina.domain.findings import Finding, Level


class FindingModel(BaseModel):
    """Something that has to be said about a pipeline, or about a capture."""

    level: Level
    where: str
    code: str = Field(description="What it is, for programs: stable, and listed in docs/reference.md.")
    data: dict[str, Any] = Field(description="What the message says, value by value.")
    message: str = Field(description="For people, in English.")
    remedy: str = Field(description="What to do about it.")
    target: str | None = Field(default=None, description="Of several targets: whose it is; null: it is true of all.")

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """From the service's."""
        return cls.model_validate(finding.as_json())
