"""Any order of run, pause, enable, disable, edit, delete, claim, crash, takeover and end, on the real database."""

import os
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from psycopg.conninfo import make_conninfo

from tests.models.lifecycle import Bench, Lifecycle
from tests.support import Lab
from vitrina.control.plane import ControlPlane
from vitrina.domain.lifecycle import TRANSITIONS
from vitrina.runner.dispatcher import PipelineDispatcher
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "0"))


@pytest.fixture
def bench(lab: Lab) -> Iterator[Bench]:
    """A control plane and a dispatcher on a lab's database."""
    plane = ControlPlane(make_conninfo(lab.conninfo, user="vitrina_api"), lab.connections)
    plane.pool.open()
    identity = Identity()
    heartbeat = Heartbeat(lab.connections, identity, 60, 1)
    try:
        yield Bench(lab, plane, PipelineDispatcher(lab.connections, identity, heartbeat, Event()))
    finally:
        plane.pool.close()


@pytest.mark.scenario(18)
def test_any_order_of_requests_edits_crashes_and_ends_leaves_legal_states_only(bench: Bench) -> None:
    """The short form takes the same orders every time; VITRINA_ROUNDS draws others, that many."""
    profile = settings(
        max_examples=ROUNDS or 30,
        stateful_step_count=30,
        derandomize=not ROUNDS,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    machine: Any = partial(Lifecycle, bench)
    run_state_machine_as_test(machine, settings=profile)
    print(f"{sum(bench.taken.values()):,} moves, {sum(bench.refused.values()):,} refusals, all as the model says")
    taken = {name for name, _, _ in bench.taken}
    print("taken:", sorted(taken), "refused:", sorted(bench.refused))
    assert {"request_run", "claim", "fail"} <= taken <= set(TRANSITIONS)
    assert taken == set(TRANSITIONS) or ROUNDS < 100
    assert bench.refused
