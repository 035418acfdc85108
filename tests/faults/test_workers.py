"""Transforms that hang, crash, leak or die: each costs an attempt of its own run, and nobody else anything."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.patience import promptly
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner
from vitrina.transforms.running import begin_worker
from vitrina.transforms.workers import POOL

pytestmark = pytest.mark.faults
THING = "'name ' || n AS name, '{\"a\": 1.50}'::json AS doc, n::numeric / 3 AS part FROM content.thing"
SELECT = f"SELECT n AS id, {THING}"
TRANSFORMS = """
import os, signal, threading, time
from vitrina import transform

@transform("hang")
def hang(rows):
    open(os.environ["MARK"], "w").write(str(os.getpid()))
    while True:
        pass

@transform("hang_in_c")
def hang_in_c(rows):
    open(os.environ["MARK"], "w").write(str(os.getpid()))
    sum(range(10**15))

@transform("crash")
def crash(rows):
    os.kill(os.getpid(), signal.SIGSEGV)

@transform("leave")
def leave(rows):
    os._exit(3)

@transform("exit")
def exit_(rows):
    raise SystemExit("enough")

@transform("leak")
def leak(rows):
    kept = [bytearray(50_000_000) for _ in range(1000)]
    return rows

@transform("who", adds={"pid": "integer"})
def who(rows):
    print("this goes to nobody's protocol")
    return [row | {"pid": os.getpid()} for row in rows]
"""


@pytest.fixture
def mark(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a transform writes once it is under way; its module is installed."""
    (tmp_path / "odd_transforms.py").write_text(TRANSFORMS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    lab.configure(transform_modules=["odd_transforms"])
    lab.sql("CREATE TABLE content.thing AS SELECT n FROM generate_series(1, 10) n")
    lab.sql("GRANT SELECT ON content.thing TO vitrina_reader")
    return tmp_path / "mark"


def add(lab: Lab, name: str, **more: Any) -> Pipeline:
    tasks = [{"order_index": 1, "task_type": "SQL", "body": SELECT}]
    tasks += [{"order_index": 2, "task_type": "PYTHON", "body": name}]
    return lab.add(name=name, target_table=f"analytics.{name}", tasks=tasks, key=["id"], batch_size=4, **more)


def is_gone(mark: Path) -> bool:
    return not Path(f"/proc/{mark.read_text()}").exists()


@pytest.mark.scenario(68)
@pytest.mark.parametrize("name", ["hang", "hang_in_c"])
def test_a_transform_that_hangs_is_paused_at_once_and_its_process_is_gone(lab: Lab, mark: Path, name: str) -> None:
    pipeline = add(lab, name)
    with lab.runner():
        lab.request(pipeline)
        wait_for(mark.exists, 20)
        lab.sql("UPDATE etl.etl_pipelines SET status = 'PAUSE_REQUESTED'")
        wait_for(lambda: lab.status(pipeline) == "PAUSED")
    assert is_gone(mark)


@pytest.mark.scenario(68)
def test_a_runner_with_a_transform_that_hangs_ends_when_it_is_told_to(lab: Lab, mark: Path) -> None:
    pipeline = add(lab, "hang")
    with ExitStack() as stack:
        stack.enter_context(lab.runner())
        lab.request(pipeline)
        wait_for(mark.exists, 20)
        with promptly(5):
            stack.close()
    assert lab.status(pipeline) == "RUN_REQUESTED"  # another goes on


@pytest.mark.scenario(68)
def test_a_batch_that_takes_too_long_is_an_attempt(lab: Lab, mark: Path) -> None:
    lab.configure(transform_timeout_seconds=0.3)
    run = lab.run(add(lab, "hang"))
    assert (run["status"], run["attempt"]) == ("FAILED", 3)
    assert "did not finish its batch within 0.3 s" in run["said"]
    assert is_gone(mark)


@pytest.mark.scenario(68)
@pytest.mark.parametrize(
    ("name", "attempts", "said"),
    [
        ("crash", 3, "was killed by signal 11"),
        ("leave", 3, "ended with code 3"),
        ("exit", 1, "SystemExit: enough"),
        ("leak", 1, "needs more memory than a transform may have"),
    ],
)
def test_a_crash_is_an_attempt_of_its_run_alone(lab: Lab, mark: Path, name: str, attempts: int, said: str) -> None:
    lab.configure(transform_memory_mb=512)
    run = lab.run(add(lab, name))
    assert (run["status"], run["attempt"]) == ("FAILED", attempts)
    assert said in run["said"]
    assert lab.run(add(lab, "who"))["status"] == "SUCCESS"


def test_batches_and_runs_share_a_warm_process_and_values_come_back_exactly(lab: Lab, mark: Path) -> None:
    pipeline = add(lab, "who")
    assert lab.run(pipeline)["rows_written"] == 10
    (pid,) = lab.sql("SELECT DISTINCT pid FROM analytics.who")
    assert pid[0] != os.getpid()
    lab.sql("TRUNCATE analytics.who")
    lab.run(pipeline)
    assert lab.sql("SELECT DISTINCT pid FROM analytics.who") == [pid]
    mart = lab.sql("SELECT (id, name, doc, part)::text FROM analytics.who ORDER BY id")
    assert mart == lab.sql(f"SELECT (id, name, doc, part)::text FROM ({SELECT}) q ORDER BY id")


def test_a_worker_that_was_begun_is_the_one_that_is_used(lab: Lab, mark: Path) -> None:
    POOL.close()
    for _ in range(2):  # the second time one is at rest, and there is nothing to begin
        begin_worker(lab.connections.settings)
    [begun] = [worker for workers in POOL._idle.values() for worker in workers]
    lab.run(add(lab, "who"))
    assert lab.sql("SELECT DISTINCT pid FROM analytics.who") == [(begun.process.pid,)]


@pytest.mark.parametrize(("modules", "begun"), [(["odd_transforms"], 1), ([], 0)])
def test_a_runner_with_transforms_begins_a_worker_before_it_claims_anything(
    lab: Lab, mark: Path, modules: list[str], begun: int
) -> None:
    POOL.close()
    lab.configure(transform_modules=modules)
    Runner(lab.connections).check()
    assert sum(len(workers) for workers in POOL._idle.values()) == begun


def test_a_worker_that_died_at_rest_costs_no_attempt(lab: Lab, mark: Path) -> None:
    pipeline = add(lab, "who")
    lab.run(pipeline)
    [(pid,)] = lab.sql("SELECT DISTINCT pid FROM analytics.who")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z")
    lab.sql("TRUNCATE analytics.who")
    run = lab.run(pipeline)
    assert (run["status"], run["attempt"]) == ("SUCCESS", 1)


@pytest.mark.scenario(68)
def test_a_worker_dies_with_its_runner_even_in_the_middle_of_an_endless_loop(mark: Path, tmp_path: Path) -> None:
    """The runner is killed, and nobody is left to end it."""
    program = (
        "from vitrina.transforms.workers import POOL\nfrom vitrina.transforms.frames import Order, Values\n"
        "from vitrina.sql.describe import Column\n"
        "worker = POOL.get(['odd_transforms'], 0, lambda: None)\n"
        "order = Order('rows', ['hang_in_c'], [Column('id', 'integer')], ['id'], Values(['id'], [(1,)]))\n"
        "worker.give(order, lambda: None, 99)\n"
        "worker.take()\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    runner = subprocess.Popen([sys.executable, "-c", program], env=environment)
    wait_for(mark.exists, 20)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for(lambda: is_gone(mark))


def teardown_module() -> None:
    """Their module is gone."""
    POOL.close()
