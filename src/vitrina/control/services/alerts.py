"""Whom alerts are told, how that went, and a test of it: as runners have said, since only they know any address."""

from dataclasses import dataclass
from typing import Any

from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.control.problems import NotFound
from vitrina.control.services.requests import RequestService
from vitrina.domain.request import AlertParams, RequestKind
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.requests import RequestRepo


@dataclass(frozen=True)
class Alerts:
    """Reads, and has a destination tested."""

    plane: ControlPlane
    actor: str

    def destinations(self) -> list[DictRow]:
        """By name, each with how its last delivery went."""
        with self.plane.session() as conn:
            return AlertRepo(conn).destinations()

    def require(self, name: str) -> None:
        """That there is such a one."""
        if name not in [row["name"] for row in self.destinations()]:
            raise NotFound(f"no runner has named a destination {name!r}", f"set VITRINA_ALERTS__{name.upper()}__URL")

    def deliveries(
        self, destination: str | None, limit: int, before: int | None = None
    ) -> tuple[list[Any], int | None]:
        """One page, newest first, and where the next one starts."""
        with self.plane.session() as conn:
            found = AlertRepo(conn).deliveries(destination, limit + 1, before)
        return found[:limit], found[limit - 1]["id"] if len(found) > limit else None

    def test(self, name: str) -> DictRow:
        """Have a runner tell it that this is a test, and wait a little for what was answered."""
        self.require(name)
        params = AlertParams(destination=name, asked_by=self.actor).model_dump(mode="json")
        with self.plane.transaction(self.actor) as conn:
            request_id = RequestRepo(conn).ask(RequestKind.ALERT, None, params, self.actor)
            EditingRepo(conn).audit(self.actor, "test-alert", None, {"destination": name, "request": str(request_id)})
        return RequestService(self.plane, self.actor).wait(request_id)
