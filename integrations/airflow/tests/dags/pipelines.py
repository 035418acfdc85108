"""What the tests run: a pipeline each, waited for in the triggerer or by a worker, and a mart that is waited for."""

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_vitrina.operators import VitrinaRunOperator
from airflow_provider_vitrina.sensors import VitrinaFreshnessSensor

WHICH = {"pipeline": "{{ params.pipeline }}", "poll_seconds": 0.5}

with DAG("deferred", params={"pipeline": "films"}):
    VitrinaRunOperator(task_id="run", deferrable=True, **WHICH)

with DAG("by_a_worker", params={"pipeline": "films"}):
    VitrinaRunOperator(task_id="run", deferrable=False, **WHICH)

with DAG("tried_twice", params={"pipeline": "films"}):
    VitrinaRunOperator(task_id="run", deferrable=True, retries=1, retry_delay=timedelta(seconds=1), **WHICH)

with DAG("fresh", params={"pipeline": "films"}):
    VitrinaFreshnessSensor(
        task_id="wait", pipeline="{{ params.pipeline }}", max_age=timedelta(minutes=30), poke_interval=0.5
    )
