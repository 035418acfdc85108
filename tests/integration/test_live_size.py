"""What following costs: one change never reads a table from end to end, and a large fan-out can be interrupted.

VITRINA_ROUNDS makes the fan-out as large as it is meant to be: 100,000 films.
"""

import os
from collections.abc import Iterator

import pytest

from tests.integration.test_live import AGGREGATE, CARD
from tests.living import Living, living
from tests.support import BLOCKED, Lab, wait_for
from vitrina.meta.repos.pipelines import PipelineRepo

FILMS = 100_000 if os.environ.get("VITRINA_ROUNDS") else 5_000
FILL = """
    INSERT INTO content.film_work (id, title, type, rating)
        SELECT md5('f' || n)::uuid, 'film ' || n, 'movie', n % 10 FROM generate_series(1, {films}) n;
    INSERT INTO content.genre_film_work (id, film_work_id, genre_id)
        SELECT md5('l' || n)::uuid, md5('f' || n)::uuid, (SELECT min(id::text)::uuid FROM content.genre)
        FROM generate_series(1, {films}) n;
    INSERT INTO ugc.ratings (id, user_id, film_id, rating)
        SELECT md5('r' || n)::uuid, md5('u' || n)::uuid, md5('f' || n % {films})::uuid, n % 11
        FROM generate_series(1, {films} * 3) n WHERE n % {films} > 0;
    ANALYZE content.film_work, content.genre_film_work, ugc.ratings;
"""
RENAME = "UPDATE content.genre SET name = name || '!' WHERE id = (SELECT min(id::text)::uuid FROM content.genre)"
RENAMED = "SELECT count(*) FROM analytics.mart WHERE genres::text LIKE '%!%'"
# A batch waits for whoever holds the lock, if one before it has been written.
HELD_AFTER_ONE_BATCH = f"""
    CREATE FUNCTION content.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF ({RENAMED}) > 0 THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
        RETURN NULL; END $$;
    CREATE TRIGGER hold BEFORE INSERT OR UPDATE ON analytics.mart EXECUTE FUNCTION content.hold();
"""
GROUPED = """
    SELECT f.id AS film_id, f.title, r.votes, r.average FROM content.film_work f
    LEFT JOIN (SELECT film_id, count(*) AS votes, avg(rating) AS average FROM ugc.ratings GROUP BY film_id) r
        ON r.film_id = f.id"""
BEST = """
    SELECT w.film_id, w.user_id, w.rating FROM content.film_work f
    JOIN (SELECT film_id, user_id, rating, row_number() OVER (PARTITION BY film_id ORDER BY rating DESC, id) AS place
          FROM ugc.ratings) w ON w.film_id = f.id AND w.place = 1"""
SCALAR = """
    SELECT f.id AS film_id, (SELECT max(r.rating) FROM ugc.ratings r WHERE r.film_id = f.id) AS best
    FROM content.film_work f"""
SCANNED = """
    SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables
    WHERE relid IN ('content.film_work'::regclass, 'content.genre_film_work'::regclass, 'ugc.ratings'::regclass,
                    to_regclass('analytics.mart'))"""


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    lab.sql(FILL.format(films=FILMS))
    with living(lab, "wal") as live:
        yield live


def scanned(lab: Lab) -> int:
    """Rows that sequential scans have read; those of sessions that have ended."""
    lab.sql("SELECT pg_stat_force_next_flush()")
    lab.sql("SELECT pg_stat_clear_snapshot()")
    return int(lab.value(SCANNED))


@pytest.mark.parametrize(
    "select", [AGGREGATE, CARD, GROUPED, BEST, SCALAR], ids=["group", "card", "grouped subquery", "window", "scalar"]
)
def test_one_change_reads_no_table_from_end_to_end(live: Living, select: str) -> None:
    lab, pipeline = live.lab, live.add(select)
    live.follow(pipeline)
    lab.sql("ANALYZE analytics.mart")
    live.follow(pipeline)  # the way to read some keys is chosen
    before = scanned(lab)
    lab.sql("UPDATE ugc.ratings SET rating = 10 WHERE id = md5('r5')::uuid")
    lab.sql("UPDATE content.film_work SET title = 'renamed' WHERE id = md5('f7')::uuid")
    run = live.follow(pipeline)
    assert run["rows_written"] > 0
    assert scanned(lab) - before < FILMS / 2
    live.assert_equal(pipeline)


def test_a_large_fan_out_is_paused_in_the_middle_and_resumed(live: Living) -> None:
    lab, pipeline = live.lab, live.add(CARD, batch_size=FILMS // 20)
    live.follow(pipeline)
    lab.sql(HELD_AFTER_ONE_BATCH)
    lab.sql("SELECT pg_advisory_lock(4711)")
    lab.sql(RENAME)
    live.catch_up()
    with lab.runner():
        wait_for(lambda: lab.value(BLOCKED), 60)
        PipelineRepo(lab.db).request_pause(pipeline.id)
        lab.sql("SELECT pg_advisory_unlock(4711)")
        wait_for(lambda: lab.status(pipeline) == "PAUSED", 60)
    done = lab.value(RENAMED)
    assert 0 < done < FILMS
    run = live.follow(pipeline)
    assert run["rows_written"] >= FILMS - done
    live.assert_equal(pipeline)


def test_a_genre_of_all_films_is_renamed_without_a_comparison(live: Living) -> None:
    lab, pipeline = live.lab, live.add(CARD)
    live.follow(pipeline)
    lab.sql(RENAME)
    live.catch_up()
    run = live.follow(pipeline)
    assert (run["rows_written"], live.why(pipeline)) == (run["rows_read"], "")
    live.assert_equal(pipeline)
