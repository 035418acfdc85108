"""How the checks of a pipeline stand, and what came of them in a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from vitrina.control.plane import ControlPlane
from vitrina.domain.checks import Check, said
from vitrina.meta.db import Connection
from vitrina.meta.repos.checks import of_run, standing
from vitrina.meta.repos.pipelines import StoredPipeline

CHECKS = TypeAdapter(tuple[Check, ...])


@dataclass(frozen=True)
class CheckStanding:
    """One check, and what came of it when it was asked last."""

    name: str
    kind: str
    effect: str
    asks: str
    outcome: str | None  # None: it has not been asked yet
    rows: int
    keys: Sequence[Mapping[str, str]]
    error: str | None
    since: datetime | None
    asked_at: datetime | None
    run_id: int | None

    @classmethod
    def of(cls, check: Check, row: Mapping[str, Any]) -> "CheckStanding":
        """From the configuration and the meta-store."""
        found: dict[str, Any] = {"rows": 0, "keys": ()} | dict(row)
        told: list[Any] = [
            found.get(name) for name in ("outcome", "rows", "keys", "error", "since", "asked_at", "run_id")
        ]
        return cls(check.name, check.kind, check.effect, check.asks, *told)

    @property
    def said(self) -> str:
        """In words."""
        return said(self.outcome, self.kind, self.rows, self.keys, self.error)


def checks_of(conn: Connection, stored: StoredPipeline) -> list[CheckStanding]:
    """In the order in which they are written; of a configuration that is wrong, none."""
    try:
        checks = CHECKS.validate_python(stored.config.get("checks") or ())
    except ValidationError:
        return []
    rows = {row["name"]: row for row in standing(conn, [stored.id]).get(stored.id, ())} if checks else {}
    return [CheckStanding.of(check, rows.get(check.name, {})) for check in checks]


def checks_of_run(plane: ControlPlane, run_id: int) -> list[dict[str, Any]]:
    """What came of each, by name."""
    with plane.session() as conn:
        return [dict(row) | {"said": said_of(row)} for row in of_run(conn, run_id)]


def said_of(row: Mapping[str, Any]) -> str:
    """A row of a run's history, in words."""
    return said(row["outcome"], row["kind"], row["rows"], row["keys"], row["error"])
