"""Running a pipeline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException

from airflow_provider_vitrina.client import Client, Conflict, Requested, Run, read
from airflow_provider_vitrina.hooks import DEFAULT_CONNECTION, VitrinaHook
from airflow_provider_vitrina.links import PAGE, VitrinaRunLink
from airflow_provider_vitrina.triggers import VitrinaRunTrigger
from airflow_provider_vitrina.waiting import Watch

if TYPE_CHECKING:
    from airflow.sdk import Context

COUNTS = ("rows_read", "rows_written", "rows_deleted", "rows_unchanged", "batches", "attempt")


class VitrinaRunOperator(BaseOperator):
    """Asks for a run of a pipeline and waits until it is over; fails, with the pipeline's error, unless it succeeded.

    The request carries a key of this try: asked again after a lost answer, it starts nothing twice. While a run is
    requested or under way already, that is the one it waits for. Returns the run's id and counts.

    :param pipeline: name or uuid
    :param restart: drop the checkpoint first
    :param rebuild: write every row of the mart anew, at once
    :param allow_deletes: let the mass-delete guard pass, this once
    :param deferrable: wait in the triggerer, without a worker
    :param pause_on_kill: pause the pipeline when the task is killed; a paused one rests until somebody runs it
    :param poll_seconds: between two looks
    """

    template_fields: Sequence[str] = ("pipeline",)
    operator_extra_links = (VitrinaRunLink(),)
    ui_color = "#dfe8f7"

    def __init__(
        self,
        *,
        pipeline: str,
        restart: bool = False,
        rebuild: bool = False,
        allow_deletes: bool = False,
        vitrina_conn_id: str = DEFAULT_CONNECTION,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        pause_on_kill: bool = True,
        poll_seconds: float = 5.0,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.pipeline = pipeline
        self.restart, self.rebuild, self.allow_deletes = restart, rebuild, allow_deletes
        self.vitrina_conn_id = vitrina_conn_id
        self.deferrable = deferrable
        self.pause_on_kill = pause_on_kill
        self.poll_seconds = poll_seconds
        self._killer: Client | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask, then wait, here or in the triggerer."""
        hook = VitrinaHook(self.vitrina_conn_id)
        with hook.get_conn() as client, hook.get_conn() as self._killer:
            requested = self._ask(client, context)
            if self.deferrable:
                self.defer(
                    trigger=self._trigger(requested), method_name="execute_complete", timeout=self.execution_timeout
                )
            return self.execute_complete(context, self._wait(client, requested))

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """What the run did; AirflowException if it is no success."""
        if "run" in event:
            with VitrinaHook(self.vitrina_conn_id).get_conn() as client:
                context["ti"].xcom_push(key=PAGE, value=client.page_of(read(Run, event["run"])))
        if event["status"] != "SUCCESS":
            raise AirflowException(event["message"])
        return {"run_id": event["run"]["id"]} | {name: event["run"][name] for name in COUNTS}

    def on_kill(self) -> None:
        """Called in the middle of whatever we do: so with a client of its own, made before."""
        if self._killer and self.pause_on_kill:
            try:
                self._killer.pause(self.pipeline)
            except Conflict as error:  # it has failed meanwhile: there is nothing to pause
                self.log.info("%s", error)

    def _ask(self, client: Client, context: Context) -> Requested:
        requested = client.run(
            self.pipeline,
            restart=self.restart,
            rebuild=self.rebuild,
            allow_deletes=self.allow_deletes,
            key=key_of(context),
        )
        context["ti"].xcom_push(key=PAGE, value=client.page_of(requested))
        self.log.info("%s is %s%s", requested.name, requested.status, "" if requested.changed else " already")
        return requested

    def _trigger(self, requested: Requested) -> VitrinaRunTrigger:
        return VitrinaRunTrigger(self.vitrina_conn_id, requested.raw, self.poll_seconds, self.pause_on_kill)

    def _wait(self, client: Client, requested: Requested) -> dict[str, Any]:
        watch = Watch(client, requested)
        self.log.info("waiting for %s", requested.name)
        while not (event := watch.look()):
            time.sleep(self.poll_seconds)
        return event


def key_of(context: Context) -> str:
    """One for each try of each task instance, short enough whatever their names are."""
    ti = context["ti"]
    names = (ti.dag_id, ti.run_id, ti.task_id, ti.map_index, ti.try_number)
    return f"airflow-{uuid5(NAMESPACE_URL, '/'.join(map(str, names)))}"
