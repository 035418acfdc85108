"""Waiting for a mart."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.bases.sensor import PokeReturnValue

from airflow_provider_vitrina.hooks import DEFAULT_CONNECTION, VitrinaHook

if TYPE_CHECKING:
    from airflow.sdk import Context


class VitrinaFreshnessSensor(BaseSensorOperator):
    """Waits until a mart has everything that was committed before a moment; returns up to when it has.

    A live mart says so itself; of any other it is the start of its last successful run.

    :param pipeline: name or uuid
    :param max_age: the moment is so long ago, at each look
    :param since: the moment itself, in ISO 8601; a template such as ``{{ data_interval_end }}``
    """

    template_fields: Sequence[str] = ("pipeline", "since")

    def __init__(
        self,
        *,
        pipeline: str,
        max_age: timedelta | None = None,
        since: str | None = None,
        vitrina_conn_id: str = DEFAULT_CONNECTION,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        if (max_age is None) == (since is None):
            raise ValueError(f"{self.task_id}: give either max_age or since")
        self.pipeline = pipeline
        self.max_age = max_age
        self.since = since
        self.vitrina_conn_id = vitrina_conn_id

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """One look."""
        with VitrinaHook(self.vitrina_conn_id).get_conn() as client:
            as_of = client.fresh_as_of(self.pipeline)
        wanted = self._moment()
        self.log.info("%s has everything until %s, wanted: %s", self.pipeline, as_of or "never", wanted)
        return PokeReturnValue(as_of is not None and as_of >= wanted, as_of.isoformat() if as_of else None)

    def _moment(self) -> datetime:
        if self.max_age is not None:
            return datetime.now(UTC) - self.max_age
        moment = datetime.fromisoformat(self.since or "")
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
