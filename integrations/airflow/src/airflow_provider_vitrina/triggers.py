"""Waiting for a run without a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_vitrina.client import Conflict, Requested, read
from airflow_provider_vitrina.hooks import VitrinaHook
from airflow_provider_vitrina.waiting import Watch


class VitrinaRunTrigger(BaseTrigger):
    """Fires once, when the run that a request led to is over. The client is synchronous, so it looks in a thread."""

    def __init__(
        self, vitrina_conn_id: str, requested: dict[str, Any], poll_seconds: float, pause_on_kill: bool
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.vitrina_conn_id = vitrina_conn_id
        self.requested = requested
        self.poll_seconds = poll_seconds
        self.pause_on_kill = pause_on_kill

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """For the triggerer that takes it, or takes it over."""
        names = ("vitrina_conn_id", "requested", "poll_seconds", "pause_on_kill")
        return f"{__name__}.{type(self).__name__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look, and look again."""
        with await VitrinaHook(self.vitrina_conn_id).aget_conn() as client:
            watch = Watch(client, read(Requested, self.requested))
            self.log.info("waiting for %s", self.requested["name"])
            while not (event := await asyncio.to_thread(watch.look)):
                await asyncio.sleep(self.poll_seconds)
        yield TriggerEvent(event)

    async def on_kill(self) -> None:
        """The task was marked or cleared by somebody: the pipeline is paused after its batch."""
        if not self.pause_on_kill:
            return
        with await VitrinaHook(self.vitrina_conn_id).aget_conn() as client:
            try:
                await asyncio.to_thread(client.pause, self.requested["id"])
            except Conflict as error:  # it has failed meanwhile: there is nothing to pause
                self.log.info("%s", error)
