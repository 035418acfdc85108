"""Random DDL among random changes of rows, under a runner at work: every mart ends equal, and by itself.

VITRINA_ROUNDS makes it longer.
"""

import os
import random
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.catalogue import NAMES, OURS, REPLACE, SETUP
from tests.living import Living, images, living
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import Connection, connect

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "0"))
SEED = random.randrange(10**6)
VIEW = "CREATE OR REPLACE VIEW content.shown AS SELECT id, {} FROM content.song WHERE id {}"
# Each line is one thing that is now so and now otherwise.
DDL = (
    [VIEW.format("title", "> 3"), VIEW.format("upper(title) AS title", "> 3"), VIEW.format("title", "% 2 = 0")],
    [REPLACE.format("shout(t text) RETURNS text", body) for body in ("t || '!'", "t || '?'", "'x' || t")],
    [REPLACE.format("inner_shout(t text) RETURNS text", body) for body in ("t || '1'", "t || '2'")],
    ["ALTER TYPE content.mood RENAME VALUE " + names for names in ("'calm' TO 'quiet'", "'quiet' TO 'calm'")],
    ["ALTER POLICY seen ON content.album USING (true)", "ALTER POLICY seen ON content.album USING (id < 3)"],
    ["ALTER TABLE content.album DISABLE ROW LEVEL SECURITY", "ALTER TABLE content.album ENABLE ROW LEVEL SECURITY"],
    ["ALTER TABLE content.banned ALTER song DROP NOT NULL",
     "DELETE FROM content.banned WHERE song IS NULL; ALTER TABLE content.banned ALTER song SET NOT NULL"],
    ["ALTER TABLE content.banned DROP CONSTRAINT banned_song_key",
     "TRUNCATE content.banned; ALTER TABLE content.banned ADD CONSTRAINT banned_song_key UNIQUE (song)"],
    ["ALTER TABLE content.song RENAME price TO cost", "ALTER TABLE content.song RENAME cost TO price"],
    ["GRANT SELECT ON content.song TO vitrina_capture", "REVOKE SELECT ON content.song FROM vitrina_capture"],
)  # fmt: skip
ROWS = (
    "UPDATE content.song SET title = 't' || {n} WHERE id = {k}",
    "UPDATE content.song SET album = 1 + {n} % 3 WHERE id = {k}",
    "INSERT INTO content.song VALUES ({k}, 'new', 'wild', 1) ON CONFLICT DO NOTHING",
    "DELETE FROM content.song WHERE id = {k} AND id > 3",
    "UPDATE content.album SET name = 'a' || {n}, hidden = {n} % 2 = 0 WHERE id = 1 + {k} % 3",
    "INSERT INTO content.banned VALUES ({k}) ON CONFLICT DO NOTHING",
    "INSERT INTO content.banned SELECT NULL",
    "DELETE FROM content.banned WHERE song IS NULL OR song = {k}",
)
MARTS = {
    "view": "SELECT id, title FROM content.shown",
    "call": "SELECT id, content.shout(title) AS title, content.atomic(title) AS other FROM content.song",
    "mood": "SELECT id, mood::text AS mood FROM content.song",
    "row": "SELECT id, to_jsonb(s) AS doc FROM content.song s",
    "policy": "SELECT s.id, a.name FROM content.song s LEFT JOIN content.album a ON a.id = s.album",
    "nulls": "SELECT id, title FROM content.song s WHERE id < 3 OR id NOT IN (SELECT song FROM content.banned)",
    "group": "SELECT a.id, a.name, count(s.id) AS n FROM content.album a LEFT JOIN content.song s ON s.album = a.id"
    " WHERE a.id < 3 GROUP BY a.id",
}


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    lab.sql(SETUP)
    lab.sql("INSERT INTO content.song SELECT n, 'more', 'calm', 1 + n % 3 FROM generate_series(10, 19) AS n")
    quick = {"dependency_seconds": 0.3, "max_delete_rows": 10**6, "poll_seconds": 0.2}
    lab.configure(allowed_functions=OURS, **quick)
    with living(lab, "trigger", NAMES) as live:
        yield live


def disturb(conn: Connection, rng: random.Random, transactions: int) -> None:
    """Rows and DDL, alone and together in a transaction; what is not possible at the time is left out."""
    conn.execute("SET lock_timeout = '2s'")
    for _ in range(transactions):
        with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected), conn.transaction():
            for _ in range(rng.randint(1, 3)):
                text = rng.choice(rng.choice(DDL)) if rng.random() < 0.4 else rng.choice(ROWS)
                with suppress(psycopg.errors.Error), conn.transaction():
                    conn.execute(
                        text.replace("{n}", str(rng.randint(0, 9))).replace("{k}", str(rng.randint(1, 19))).encode()
                    )


def is_equal(lab: Lab, reader: Connection, pipeline: Pipeline) -> bool:
    mart = images(lab.db, f"SELECT * FROM {pipeline.target_table}")
    return mart == images(reader, str(pipeline.source_query))


@pytest.mark.parametrize("rounds", [pytest.param(1, id="short"), pytest.param(8, marks=pytest.mark.long, id="long")])
def test_marts_end_equal_whatever_becomes_of_the_catalogue(live: Living, rounds: int) -> None:
    lab, rng = live.lab, random.Random(SEED)
    marts = [live.add(text, ["id"], name=name, target_table=f"analytics.{name}") for name, text in MARTS.items()]
    live.follow(*marts)
    user = make_conninfo(lab.conninfo, user="vitrina_reader")
    with lab.runner(), connect(user, "oracle") as reader, connect(lab.conninfo, "application") as application:
        for round_ in range(max(rounds, ROUNDS)):
            disturb(application, rng, 25)
            for mart in marts:
                note = f"seed {SEED}, round {round_}, {mart.name}"
                assert lab.status(mart) in ("IDLE", "FOLLOWING", "RUNNING", "RUN_REQUESTED"), (
                    f"{note}: {lab.last_run(mart)['error']}"
                )
                wait_for(lambda mart=mart: is_equal(lab, reader, mart), 60)  # type: ignore[misc]
