"""Log and followers commit without waiting for the disk: what a crash takes of both comes back, and nothing is lost."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from psycopg.conninfo import make_conninfo

from tests.capturing import Captured, own_server
from tests.living import Living
from tests.support import Lab, make_connections, make_templates, wait_for
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect

pytestmark = pytest.mark.faults
# Nobody writes the log of the server out but who commits with care.
LAZY = {"synchronous_commit": "on", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
SCORES = "SELECT film_id, sum(score)::bigint AS score FROM content.scores GROUP BY film_id"
ROUNDS = 5


@pytest.fixture
def two() -> Iterator[tuple[EmbeddedPostgres, Living]]:
    """A warehouse that may be crashed, and a source on a server of its own, which knows what it was told."""
    with ExitStack() as stack:
        warehouse, source = (stack.enter_context(own_server(**LAZY)) for _ in range(2))
        make_templates(warehouse.conninfo())
        make_templates(source.conninfo())
        here, there = (server.conninfo("vitrina_template") for server in (warehouse, source))
        lab = Lab(here, connect(here, "lab"), make_connections(here, poll_seconds=0.1, lease_seconds=5))
        captures = dict(lab.connections.captures) | {"other": make_conninfo(there, user="vitrina_capture")}
        reader = {"other": make_conninfo(there, user="vitrina_reader")}
        lab.connections = replace(lab.connections, sources=reader, captures=captures)
        captured = Captured(lab, "wal", "other", stack.enter_context(connect(there, "origin")))
        captured.run(
            "CREATE TABLE content.scores (id int PRIMARY KEY, film_id int NOT NULL, score int NOT NULL)",
            "ALTER TABLE content.scores REPLICA IDENTITY FULL",
            "INSERT INTO content.scores SELECT n, n % 50, n FROM generate_series(1, 500) n",
            "GRANT SELECT ON content.scores TO vitrina_reader",
        )
        captured.install("content.scores")
        yield warehouse, Living(lab, captured)
        lab.db.close()


def test_a_crash_of_the_warehouse_takes_rows_position_and_log_together(two: tuple[EmbeddedPostgres, Living]) -> None:
    server, live = two
    lab, origin = live.lab, live.captured.conn
    pipeline = live.add(SCORES)

    def total() -> int:
        return int(lab.value(f"SELECT sum(score) FROM {pipeline.target_table}") or 0)

    with lab.runner():
        wait_for(lambda: lab.status(pipeline) == "FOLLOWING", 60)
        for round_ in range(ROUNDS):
            origin.execute("UPDATE content.scores SET score = score + 1 WHERE id <= 20")
            [wanted] = origin.execute("SELECT sum(score) AS n FROM content.scores").fetchall()
            wait_for(lambda: total() == wanted["n"], 60)  # noqa: B023
            server.restart(mode="immediate")
            lab.db = connect(lab.conninfo, f"lab {round_}")
            wait_for(lambda: total() == wanted["n"], 60)  # noqa: B023
    live.assert_equal(pipeline)
    assert live.captured.capture.generation == 1  # the source has never been told of what was not kept
    assert sum(event["event"] == "comparing" for event in lab.events(pipeline)) == 1
