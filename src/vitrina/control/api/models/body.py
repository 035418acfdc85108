"""What bodies have in common, and what an error says."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vitrina.control.api.findings import FindingModel


class Body(BaseModel):
    """A body with a field we do not know is refused."""

    model_config = ConfigDict(extra="forbid")


class ProblemModel(BaseModel):
    """An error: RFC 9457, with the remedy and what was found."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="What is wrong.")
    instance: str = Field(description="The path that was asked for.")
    remedy: str = Field(default="", description="What to do about it.")
    findings: list[FindingModel] = []
    code: str = Field(default="", description="What it is, for programs, where it has a code: as those of findings.")
    data: dict[str, Any] = Field(default={}, description="What the detail says, value by value.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Conflict",
                    "status": 409,
                    "detail": "mode cannot be changed while pipeline 'film_dim' is RUNNING",
                    "instance": "/api/v1/pipelines/film_dim",
                    "remedy": "pause it, wait for PAUSED, then edit",
                    "findings": [],
                }
            ]
        }
    )
