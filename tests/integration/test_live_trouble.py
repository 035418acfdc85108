"""Live marts when tables are truncated, rewritten, altered or half told; when much goes; when keys are told in part."""

from collections.abc import Iterator

import pytest

from tests.integration.test_live import CARD
from tests.living import Living, living
from tests.support import Lab
from vitrina.engine.live import follower
from vitrina.runner.main import Runner

PLACES = """SELECT film_id, user_id, rating, rank() OVER (PARTITION BY film_id ORDER BY rating DESC) AS place
    FROM ugc.ratings"""
ADD_FILMS = """INSERT INTO content.film_work (id, title, type, created)
    SELECT gen_random_uuid(), 'new', 'movie', 'infinity' FROM generate_series(1, 8)"""
NO_FILM = "11111111-1111-1111-1111-111111111111"


@pytest.fixture(params=["wal", "trigger"])
def live(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Living]:
    with living(lab, request.param) as live:
        yield live


@pytest.fixture
def wal(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal") as live:
        yield live


@pytest.mark.scenario(36)
def test_a_truncated_table_is_compared(live: Living) -> None:
    pipeline = live.add(CARD)
    live.follow(pipeline)
    live.lab.sql("TRUNCATE content.genre_film_work")
    live.follow(pipeline)
    assert live.why(pipeline) == "content.genre_film_work was truncated, rewritten or altered"
    live.assert_equal(pipeline)


def test_a_table_rewritten_in_place_is_compared(live: Living) -> None:
    pipeline = live.add(CARD)
    live.follow(pipeline)
    live.alter("content.genre", "ALTER COLUMN name TYPE text USING name || '?'")
    live.follow(pipeline)
    assert live.why(pipeline) == "content.genre was truncated, rewritten or altered"
    live.assert_equal(pipeline)
    live.lab.sql("UPDATE content.genre SET name = name || '!'")
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    live.assert_equal(pipeline)


@pytest.mark.scenario(33)
def test_a_column_that_changes_its_type_under_a_follower_is_drift(wal: Living) -> None:
    lab, pipeline = wal.lab, wal.add(CARD)
    wal.follow(pipeline)
    mart = lab.sql("SELECT * FROM analytics.mart ORDER BY film_id")
    wal.alter("content.film_work", "ALTER COLUMN rating TYPE numeric(8, 4)")
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert "drift: the query changed the type of rating" in run["said"]
    assert lab.sql("SELECT * FROM analytics.mart ORDER BY film_id") == mart


def test_old_rows_that_are_told_by_their_key_alone_refresh_everything(wal: Living) -> None:
    lab = wal.lab
    wal.alter("content.genre_film_work", "REPLICA IDENTITY DEFAULT")
    pipeline = wal.add(CARD)
    wal.follow(pipeline)
    lab.sql(
        "UPDATE content.genre_film_work SET film_work_id = (SELECT min(id::text)::uuid FROM content.film_work)"
        " WHERE id = (SELECT min(id::text)::uuid FROM content.genre_film_work)"
    )
    wal.follow(pipeline)
    assert "the old value of film_work_id is not told" in wal.why(pipeline)
    assert "ALTER TABLE content.genre_film_work REPLICA IDENTITY FULL mends that" in wal.why(pipeline)
    wal.assert_equal(pipeline)
    wal.alter("content.genre_film_work", "REPLICA IDENTITY FULL")
    for _ in range(2):  # the first change of the altered table may say once more that it was altered
        lab.sql("DELETE FROM content.genre_film_work WHERE ctid = (SELECT min(ctid) FROM content.genre_film_work)")
        wal.follow(pipeline)
        wal.assert_equal(pipeline)
    assert wal.why(pipeline) == ""


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_that_are_not_told_again_are_kept(wal: Living, identity: str) -> None:
    lab = wal.lab
    if identity == "DEFAULT":
        wal.alter("content.film_work", "REPLICA IDENTITY DEFAULT")
    lab.sql("ALTER TABLE content.film_work ALTER COLUMN description SET STORAGE EXTERNAL")
    lab.sql("UPDATE content.film_work SET description = repeat(id::text, 200)")
    plain = wal.add("SELECT id AS film_id, title, description FROM content.film_work")
    digest = wal.add(
        "SELECT md5(description) AS k, count(*) AS n, max(title) AS title FROM content.film_work GROUP BY 1",
        ["k"], name="digest", target_table="analytics.digest",
    )  # fmt: skip
    wal.follow(plain, digest)
    lab.sql("UPDATE content.film_work SET title = title || '!' WHERE rating > 5")
    wal.follow(plain, digest)
    assert wal.why(plain) == ""
    assert ("is not told" in wal.why(digest)) == (identity == "DEFAULT")
    wal.assert_equal(plain)
    wal.assert_equal(digest)


# ── parts of keys ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_part_of_the_key_converges_all_rows_that_carry_it(live: Living) -> None:
    lab, pipeline = live.lab, live.add(PLACES, ["film_id", "user_id"], batch_size=7)
    live.follow(pipeline)
    lab.sql("UPDATE ugc.ratings SET rating = 0 WHERE id = (SELECT id FROM ugc.ratings WHERE rating > 8 LIMIT 1)")
    lab.sql("DELETE FROM ugc.ratings WHERE id = (SELECT id FROM ugc.ratings WHERE rating > 8 LIMIT 1)")
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    live.assert_equal(pipeline)


def test_a_part_of_a_key_that_nothing_carries_is_done_with(wal: Living) -> None:
    lab, pipeline = wal.lab, wal.add(PLACES, ["film_id", "user_id"])
    wal.follow(pipeline)
    with lab.db.transaction():
        lab.sql("INSERT INTO content.film_work (id, title, type) VALUES (%s, '', 'movie')", NO_FILM)
        lab.sql("INSERT INTO ugc.ratings (id, user_id, film_id, rating) VALUES (%s, %s, %s, 5)", *[NO_FILM] * 3)
        lab.sql("DELETE FROM ugc.ratings WHERE film_id = %s", NO_FILM)
    run = wal.follow(pipeline)
    assert run["rows_written"] == 0
    assert wal.position(pipeline)["id"] == wal.tip.last_id
    assert lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_stage'") == []
    wal.assert_equal(pipeline)


def test_a_key_that_comes_twice_is_named(wal: Living) -> None:
    lab = wal.lab
    pipeline = wal.add("SELECT film_id, user_id, rating FROM ugc.ratings", ["film_id", "user_id"])
    wal.follow(pipeline)
    unique = "SELECT conname FROM pg_constraint WHERE conrelid = 'ugc.ratings'::regclass AND contype = 'u'"
    for (name,) in lab.sql(unique):
        lab.sql(f"ALTER TABLE ugc.ratings DROP CONSTRAINT {name}")
    film, user = lab.sql("SELECT film_id, user_id FROM ugc.ratings LIMIT 1")[0]
    lab.sql("INSERT INTO ugc.ratings (id, user_id, film_id, rating) VALUES (gen_random_uuid(), %s, %s, 1)", user, film)
    wal.catch_up()
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert f"the query gives a key twice: film_id = {film}, user_id = {user}" in run["said"]


# ── deletes ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_too_many_deletes_are_not_written_until_somebody_allows_them(wal: Living) -> None:
    lab, pipeline = wal.lab, wal.add(CARD)
    lab.configure(max_delete_rows=10)
    wal.follow(pipeline)
    lab.sql("DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work LIMIT 40)")
    wal.catch_up()
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert "this would delete 40 of 60 rows of analytics.mart" in run["said"]
    assert lab.value("SELECT count(*) FROM analytics.mart") == 60
    wal.follow(pipeline, allow_deletes=True)
    wal.assert_equal(pipeline)


def test_rows_that_come_make_up_for_rows_that_go(wal: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, pipeline = wal.lab, wal.add("SELECT id AS film_id, title FROM content.film_work")
    monkeypatch.setattr(follower, "SLICE", 16)
    lab.configure(max_delete_rows=10, max_delete_share=0.3)
    wal.follow(pipeline)
    for _ in range(10):
        lab.sql(ADD_FILMS)
        lab.sql(
            "DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work WHERE title <> 'new' LIMIT 8)"
        )
    run = wal.follow(pipeline)
    assert run["rows_deleted"] == 60  # all there were
    wal.assert_equal(pipeline)


def test_a_mart_with_a_key_of_another_type_is_compared(wal: Living) -> None:
    lab = wal.lab
    lab.sql("CREATE TABLE analytics.mart (film_id text PRIMARY KEY, title text)")
    lab.sql("ALTER TABLE analytics.mart OWNER TO vitrina_runner")
    pipeline = wal.add("SELECT id AS film_id, title FROM content.film_work")
    wal.follow(pipeline)
    lab.sql("UPDATE content.film_work SET title = title || '!' WHERE rating > 5")
    wal.catch_up()
    lab.request(pipeline)
    Runner(lab.connections).run_once()
    assert wal.why(pipeline) == "the mart's key has another type or a collation of its own"
    wal.assert_equal(pipeline, "SELECT id::text AS film_id, title FROM content.film_work")
