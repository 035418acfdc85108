"""What has become of a run, as an event that a task, a trigger and a database can hand on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from airflow_provider_vitrina.client import Client, ClientError, Requested, Unavailable, Unreachable

SILENCE_SECONDS = 600.0  # how long the API may be away, while it is upgraded for instance


@dataclass
class Watch:
    """Looks at a request again and again; an API that is away for a while is waited for."""

    client: Client
    requested: Requested
    heard_at: float = 0.0

    def look(self) -> dict[str, Any] | None:
        """The event, once there is one: a `status`, a `message`, and the `run` if there is one."""
        now = time.monotonic()
        self.heard_at = self.heard_at or now
        try:
            found = self.client.outcome(self.requested)
        except ClientError as error:
            is_away = isinstance(error, Unreachable | Unavailable) and now - self.heard_at < SILENCE_SECONDS
            return None if is_away else {"status": "NO RUN", "message": str(error)}
        self.heard_at = now
        if not found.ended or found.run is None:
            return None
        return {"status": found.run.status, "run": found.run.raw, "message": _message(found.run.name, found.run.raw)}


def _message(name: str, run: dict[str, Any]) -> str:
    said = f": {run['error']}" if run["error"] else ""
    return f"Vitrina's pipeline {name} ended as {run['status']} in run {run['id']}{said}"
