"""Captures that are killed, stopped or cut off at the worst moments: nothing is lost, nothing is there twice."""

import itertools
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event

import psycopg
import pytest

from tests.capturing import SCHEMA, TABLES, Captured, capturing, own_server
from tests.faults.capture_victim import POINTS
from tests.faults.driver import ROUNDS
from tests.patience import SHORT_LEASE, patient, stand_still
from tests.support import Lab, beside, make_connections, make_templates, wait_for
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect

pytestmark = pytest.mark.faults
NUMBERS = itertools.count(1)
KINDS = pytest.mark.parametrize("kind", ["wal", pytest.param("trigger", marks=pytest.mark.long)])


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with own_server(synchronous_commit="on") as server:
        make_templates(server.conninfo())
        yield server


@contextmanager
def capturing_on(server: EmbeddedPostgres, kind: str) -> Iterator[Captured]:
    """Meta-store and source in one database of a server that may be crashed."""
    name = f"crash_{kind}"
    with psycopg.connect(server.conninfo(), autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE vitrina_template".encode())
    conninfo = server.conninfo(name)
    with connect(conninfo, "lab") as db:
        captured = Captured(Lab(conninfo, db, make_connections(conninfo)), kind)
        captured.lab.sql(SCHEMA)
        captured.install()
        captured.follow()
        try:
            yield captured
        finally:
            captured.stop()


@contextmanager
def writing(captured: Captured) -> Iterator[None]:
    """An application that never stops, whatever happens to the server."""
    stopping = Event()

    def write() -> None:
        while not stopping.is_set():
            with suppress(psycopg.Error), psycopg.connect(captured.lab.conninfo) as conn:
                while not stopping.is_set():
                    number = next(NUMBERS)
                    conn.execute("INSERT INTO content.items (id, title) VALUES (%s, 'new')", [number])
                    conn.execute("UPDATE content.items SET price = id WHERE id = %s", [random.randint(1, number)])
                    conn.execute("DELETE FROM content.items WHERE id = %s", [random.randint(1, number * 3)])
                    conn.rollback() if number % 7 == 0 else conn.commit()
                    time.sleep(0.001)

    with beside(stopping, write, write):
        yield


def victim(captured: Captured, points: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.faults.capture_victim", captured.lab.conninfo, points]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def assert_nothing_lost_or_twice(captured: Captured) -> None:
    captured.start()
    captured.catch_up(30)
    captured.stop()
    captured.assert_replay_equals()
    inserted = [c["new_image"]["id"] for c in captured.changes("content.items") if c["op"] == "I"]
    assert len(inserted) == len({*inserted})
    ids = [c["id"] for c in captured.changes(*TABLES)]
    assert ids == [*range(1, len(ids) + 1)]
    assert captured.capture.generation == 1


@pytest.mark.long
@KINDS
def test_killed_at_every_point_and_the_server_crashed(server: EmbeddedPostgres, kind: str) -> None:
    with capturing_on(server, kind) as captured:
        with writing(captured):
            for round_ in range(max(1, ROUNDS // 10)):
                for point in POINTS:
                    process = victim(captured, f"{point}=kill:{random.randint(1, 4)}")
                    assert process.wait(patient(60)) == -signal.SIGKILL
                    captured.lab.sql("UPDATE etl.etl_captures SET expires_at = now() WHERE owner IS NOT NULL")
                process = victim(captured)
                grown = captured.capture.last_id
                wait_for(lambda: captured.capture.last_id > grown, 30)  # noqa: B023
                server.restart(mode="immediate")
                captured.lab.db = connect(captured.lab.conninfo, f"lab {round_}")
                process.kill()
                process.wait()
        assert_nothing_lost_or_twice(captured)


@KINDS
def test_stopped_past_its_lease_another_goes_on_and_the_zombie_stores_nothing(kind: str) -> None:
    with capturing(kind, lease_seconds=SHORT_LEASE) as captured:
        captured.install()
        captured.follow()
        for _ in range(max(1, ROUNDS // 20)):
            process = victim(captured)
            try:
                with writing(captured):
                    grown = captured.capture.last_id
                    wait_for(lambda: captured.capture.last_id > grown + 20, 30)  # noqa: B023
                    stand_still(process.pid)
                    epoch = captured.capture.epoch
                    captured.start()
                    wait_for(lambda: captured.capture.epoch > epoch and captured.capture.last_id > grown + 100, 30)  # noqa: B023
                    process.send_signal(signal.SIGCONT)
                    grown = captured.capture.last_id
                    wait_for(lambda: captured.capture.last_id > grown + 100, 30)  # noqa: B023
            finally:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
            captured.stop()
            captured.lab.sql("DELETE FROM content.items")
        assert_nothing_lost_or_twice(captured)


@KINDS
def test_a_transaction_of_many_chunks_is_whole_or_not_there(kind: str) -> None:
    rows = 500_000 if ROUNDS else 25_000
    with capturing(kind) as captured:
        captured.install()
        captured.follow()
        process = victim(captured, "before append=kill:2")  # in the middle of it
        captured.run(f"INSERT INTO content.keyed SELECT i, repeat('x', 20) FROM generate_series(1, {rows}) i")
        assert process.wait(patient(60)) == -signal.SIGKILL
        captured.lab.sql("UPDATE etl.etl_captures SET expires_at = now()")
        left = captured.lab.value("SELECT count(*) FROM etl.etl_change_segments")
        assert captured.capture.last_id == 0
        assert left > 0
        captured.start()
        captured.catch_up(120)
        assert captured.lab.value("SELECT last_id FROM etl.etl_captures") == rows + 1
        captured.assert_replay_equals("content.items")
        assert len(captured.changes("content.keyed")) == rows
