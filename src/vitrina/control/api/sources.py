"""Routes over sources: which there are, whether they answer, what can be kept of them and what there is to read."""

from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.api.findings import FindingModel
from vitrina.control.api.openapi import problems
from vitrina.control.services.sources import Answer, SourceInfo, Sources, Way

router = APIRouter(prefix="/sources", tags=["sources"])


class SourceOut(BaseModel):
    """A source, without asking it."""

    name: str
    kind: str
    address: str = Field(description="Without secrets.")
    setting: str = Field(description="That says where it is; its value may be in a file, named with _FILE at its end.")
    pipelines: int = Field(description="How many read it.")
    captured_by: str | None = Field(description="The tap that captures its changes.")

    @classmethod
    def of(cls, found: SourceInfo) -> Self:
        """From the service."""
        return cls(**vars(found))


class SchemaOut(BaseModel):
    """A schema that queries may read, as far as settings go."""

    name: str
    exists: bool
    usable: bool
    tables: int
    closed: int = Field(description="Of the tables, those that the reader may not read.")


class WayOut(BaseModel):
    """One way to keep a mart of a source."""

    mode: str = Field(description="full, incremental, live by wal, live by trigger")
    can: bool
    why: list[FindingModel] = Field(description="What is in the way.")

    @classmethod
    def of(cls, way: Way) -> Self:
        """From the service."""
        return cls(mode=way.mode, can=way.can, why=[FindingModel.of(finding) for finding in way.why])


class SourceColumn(BaseModel):
    """A column of a table."""

    name: str
    type: str
    comment: str | None


class SourceTable(BaseModel):
    """A table that a query may name."""

    schema_: str = Field(alias="schema")
    name: str
    kind: str
    readable: bool
    rows: int | None = Field(description="About so many, by the last ANALYZE.")
    comment: str | None
    key: list[str] = Field(description="The primary key.")
    columns: list[SourceColumn]


class SourceTested(SourceOut):
    """A source, as it answered just now."""

    answers: bool
    milliseconds: float
    error: str | None
    remedy: str | None
    version: str | None
    role: str | None = Field(description="Whom it is read as.")
    schemas: list[SchemaOut]
    ways: list[WayOut]

    @classmethod
    def after(cls, found: SourceInfo, answer: Answer) -> Self:
        """From the service."""
        return cls(**_told(found, answer))


class SourceLook(SourceTested):
    """The same with its tables."""

    tables: list[SourceTable]
    more_tables: bool = Field(description="Whether there are more than are listed.")

    @classmethod
    def after(cls, found: SourceInfo, answer: Answer) -> Self:
        """From the service."""
        tables = [SourceTable(**row) for row in answer.seen.tables]
        return cls(**_told(found, answer), tables=tables, more_tables=answer.seen.more)


def _sources(plane: Plane) -> Sources:
    return Sources(plane)


Places = Annotated[Sources, Depends(_sources)]


@router.get("", operation_id="list_sources", summary="List sources")
@needs(Role.VIEWER)
def list_sources(sources: Places) -> list[SourceOut]:
    """The warehouse and those that settings name. None of them is asked."""
    return [SourceOut.of(found) for found in sources.all()]


@router.get("/{name}", operation_id="get_source", summary="Look at a source", responses=problems(404))
@needs(Role.OPERATOR)
def get_source(sources: Places, name: str) -> SourceLook:
    """Ask it: who reads there, what can be kept of it and why not, and its tables with their columns."""
    return SourceLook.after(sources.get(name), sources.ask(name, tables=True))


@router.post("/{name}/test", operation_id="test_source", summary="Test a source", responses=problems(404))
@needs(Role.OPERATOR)
def test_source(sources: Places, name: str) -> SourceTested:
    """Connect to it as the reader, now. One that does not answer is an answer too: the error and what to do."""
    return SourceTested.after(sources.get(name), sources.ask(name))


def _told(found: SourceInfo, answer: Answer) -> dict[str, Any]:
    told = {name: value for name, value in vars(answer).items() if name not in ("seen", "schemas", "ways")}
    schemas = [SchemaOut(**vars(schema)) for schema in answer.schemas]
    return {**vars(found), **told, "schemas": schemas, "ways": [WayOut.of(way) for way in answer.ways]}
