"""Routes over alerts: whom they are told, how that went, and a test."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Response
from pydantic import BaseModel, Field

from vitrina.control.api import models
from vitrina.control.api.auth import Caller, Plane, Role, needs
from vitrina.control.api.openapi import problems
from vitrina.control.api.pipelines import NO_NUL, Before, Limit, accepted
from vitrina.control.services.alerts import Alerts
from vitrina.domain.alerting import Format

router = APIRouter(prefix="/alerts", tags=["alerts"])
Outcome = Literal["PENDING", "DELIVERED", "GIVEN_UP"]


class DestinationOut(BaseModel):
    """Whom alerts are told, as the settings of runners say: without addresses and secrets."""

    name: str
    format: Format
    place: str = Field(description="Its host, or who gets mail.")
    labels: list[str] = Field(description="It hears of pipelines with all of these; none: of all.")
    events: list[str] = Field(description="It hears of these, and how they end; none: of everything.")
    seen_at: datetime = Field(description="When a runner last said that it has it.")
    known: bool = Field(description="Whether a living runner has it.")
    last_status: Outcome | None = Field(description="What became of the last delivery that was tried.")
    last_error: str | None
    last_at: datetime | None
    waiting: int = Field(description="Deliveries that are still to come.")


class DeliveryOut(BaseModel):
    """One alert told to one destination, or a test."""

    id: int
    destination: str
    event: str
    alert_id: UUID | None = Field(description="As the receiver gets it in X-Vitrina-Delivery; null: a test.")
    pipeline_id: UUID | None
    pipeline: str | None = Field(description="Its name then.")
    created_at: datetime
    status: Outcome
    attempts: int
    next_at: datetime | None = Field(description="When it is tried next.")
    last_error: str | None
    answer: str | None = Field(description="To the last attempt, its beginning, without secrets.")
    took_ms: float | None
    finished_at: datetime | None


class DeliveryPage(BaseModel):
    """One page of the list."""

    items: list[DeliveryOut]
    next: int | None = Field(description="Pass it as `before` for the next page; null on the last.")


def _alerts(plane: Plane, caller: Caller) -> Alerts:
    return Alerts(plane, caller.name)


Service = Annotated[Alerts, Depends(_alerts)]
Name = Annotated[str, Path(max_length=200, pattern=NO_NUL)]


@router.get("/destinations", operation_id="list_destinations", summary="List whom alerts are told")
@needs(Role.VIEWER)
def list_destinations(alerts: Service) -> list[DestinationOut]:
    """Those that runners have named within a week, by name."""
    return [DestinationOut(**row) for row in alerts.destinations()]


@router.post(
    "/destinations/{name}/test",
    operation_id="test_destination",
    summary="Test a destination",
    responses=problems(404) | {202: {"model": models.RequestOut, "description": "Not answered yet"}},
)
@needs(Role.OPERATOR)
def test_destination(alerts: Service, response: Response, name: Name) -> models.RequestOut:
    """A runner tells it that this is a test, once; `result` has whether it was delivered, and what was answered."""
    return accepted(alerts.test(name), response)


@router.get("/deliveries", operation_id="list_deliveries", summary="List deliveries of alerts")
@needs(Role.VIEWER)
def list_deliveries(alerts: Service, limit: Limit = 50, before: Before = None) -> DeliveryPage:
    """The last ones, newest first, each with what was answered."""
    return _page(*alerts.deliveries(None, limit, before))


@router.get(
    "/destinations/{name}/deliveries",
    operation_id="list_deliveries_to",
    summary="List deliveries to a destination",
    responses=problems(404),
)
@needs(Role.VIEWER)
def list_deliveries_to(alerts: Service, name: Name, limit: Limit = 50, before: Before = None) -> DeliveryPage:
    """The same of one that runners have named."""
    alerts.require(name)
    return _page(*alerts.deliveries(name, limit, before))


def _page(rows: Sequence[dict[str, Any]], following: int | None) -> DeliveryPage:
    return DeliveryPage(items=[DeliveryOut(**_known(row)) for row in rows], next=following)


def _known(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in DeliveryOut.model_fields}
