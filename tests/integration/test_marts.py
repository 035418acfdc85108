"""Marts: created, fitted, checked for drift, guarded, published."""

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.support import Lab
from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.comparison import Differing

FILMS = "SELECT id AS film_id, title, rating FROM content.film_work"
ITEMS = "SELECT id, name FROM content.item"


def items(lab: Lab, count: int = 10, **config: Any) -> Pipeline:
    """Table content.item and a pipeline over it, not yet run."""
    lab.sql("CREATE TABLE content.item (id int, name text)")
    lab.sql("INSERT INTO content.item SELECT n, 'item ' || n FROM generate_series(1, %s) n", count)
    return lab.add(**({"source_query": ITEMS, "key": ["id"], "batch_size": 3} | config))


def went(lab: Lab, pipeline: Pipeline, **options: bool) -> tuple[int, int]:
    run = lab.run(pipeline, **options)
    assert (run["error"], run["status"]) == (None, "SUCCESS")
    return run["rows_written"], run["rows_deleted"]


def failed(lab: Lab, pipeline: Pipeline) -> str:
    """The error of a run that fails, and leaves the mart as it is."""
    before = contents(lab)
    run = lab.run(pipeline)
    assert (run["status"], lab.status(pipeline)) == ("FAILED", "FAILED")
    assert (run["rows_written"], run["rows_deleted"]) == (0, 0)
    assert contents(lab) == before
    return str(run["said"])


def contents(lab: Lab) -> list[Any]:
    if lab.value("SELECT to_regclass('analytics.mart')") is None:
        return []
    return lab.sql("SELECT m::text FROM analytics.mart m ORDER BY 1")


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_mart_is_created_with_its_key(lab: Lab) -> None:
    went(lab, items(lab))
    made = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'analytics.mart'::regclass"
    assert "PRIMARY KEY (id)" in [definition for (definition,) in lab.sql(made)]


def test_a_missing_mart_needs_a_key(lab: Lab) -> None:
    assert "names no key — set key" in failed(lab, items(lab, key=[]))


def test_the_key_defaults_to_the_primary_key(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (name text, id int PRIMARY KEY)")
    pipeline = items(lab, key=[])
    assert went(lab, pipeline) == (10, 0)
    lab.sql("UPDATE content.item SET name = 'other' WHERE id = 1; DELETE FROM content.item WHERE id = 2")
    assert went(lab, pipeline) == (1, 1)
    lab.assert_equal(pipeline)


def test_a_mart_without_primary_key_needs_a_key(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int UNIQUE, name text)")
    assert "has no primary key and the pipeline names no key" in failed(lab, items(lab, key=[]))


@pytest.mark.parametrize(
    "index",
    [
        "SELECT",
        "CREATE INDEX ON analytics.mart (id)",
        "CREATE UNIQUE INDEX ON analytics.mart (id, name)",
        "CREATE UNIQUE INDEX ON analytics.mart (id) WHERE id > 0",
        "CREATE UNIQUE INDEX ON analytics.mart ((id + 1))",
        "ALTER TABLE analytics.mart ADD UNIQUE (id) DEFERRABLE",
    ],
)
def test_a_key_without_a_unique_index_is_explained(lab: Lab, index: str) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int, name text)")
    lab.sql(index)
    error = failed(lab, items(lab))
    assert error == (
        "analytics.mart has no unique index on its key (id) — ALTER TABLE analytics.mart ADD PRIMARY KEY (id)"
    )


def test_a_key_that_the_query_lacks_is_explained(lab: Lab) -> None:
    assert (
        failed(lab, items(lab, key=["film_id"])) == "key column film_id is not in the query — the query gives id, name"
    )


def test_the_key_may_come_in_another_order_than_the_index(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int, name text, PRIMARY KEY (name, id))")
    pipeline = items(lab, key=["id", "name"])
    assert went(lab, pipeline) == (10, 0)
    lab.sql("UPDATE content.item SET name = 'other' WHERE id < 3")
    assert went(lab, pipeline) == (2, 2)


def test_columns_of_the_mart_alone_are_left_alone(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, note text, name text, seen int NOT NULL DEFAULT 7)")
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("UPDATE analytics.mart SET note = 'mine', seen = id")
    assert went(lab, pipeline) == (0, 0)
    lab.sql("UPDATE content.item SET name = 'other' WHERE id < 4")
    assert went(lab, pipeline) == (3, 0)
    assert lab.value("SELECT count(*) FROM analytics.mart WHERE note = 'mine' AND seen = id") == 10


def test_updated_at_is_stamped_on_every_write_and_only_then(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, name text, updated_at timestamptz NOT NULL)")
    pipeline = items(lab)
    went(lab, pipeline)
    before = dict(lab.sql("SELECT id, updated_at FROM analytics.mart"))
    went(lab, pipeline)
    assert dict(lab.sql("SELECT id, updated_at FROM analytics.mart")) == before
    lab.sql("UPDATE content.item SET name = 'other' WHERE id = 3; INSERT INTO content.item VALUES (11, 'new')")
    went(lab, pipeline)
    after = dict(lab.sql("SELECT id, updated_at FROM analytics.mart"))
    assert {n for n in after if after[n] != before.get(n)} == {3, 11}


def test_an_updated_at_of_the_query_is_the_querys(lab: Lab) -> None:
    select = "SELECT id, timestamptz '2024-01-01 00:00Z' AS updated_at FROM content.item"
    pipeline = items(lab, source_query=select)
    assert went(lab, pipeline) == (10, 0)
    lab.assert_equal(pipeline)


def test_a_required_column_that_the_query_does_not_give_is_explained(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, name text, must text NOT NULL)")
    assert failed(lab, items(lab)) == "analytics.mart needs a value for must, which the query does not give"


def test_a_generated_column_of_the_mart_is_left_alone(lab: Lab) -> None:
    lab.sql("""
        CREATE TABLE analytics.mart (id int PRIMARY KEY, name text, n int GENERATED ALWAYS AS IDENTITY,
                                     upper text GENERATED ALWAYS AS (upper(name)) STORED NOT NULL)""")
    pipeline = items(lab)
    assert went(lab, pipeline) == (10, 0)
    lab.sql("UPDATE content.item SET name = 'other' WHERE id = 3")
    assert went(lab, pipeline) == (1, 0)
    assert lab.value("SELECT upper FROM analytics.mart WHERE id = 3") == "OTHER"


@pytest.mark.parametrize("what", ["text GENERATED ALWAYS AS ('x') STORED", "int GENERATED ALWAYS AS IDENTITY"])
def test_a_generated_column_in_the_query_is_explained(lab: Lab, what: str) -> None:
    lab.sql(f"CREATE TABLE analytics.mart (id int PRIMARY KEY, name {what})")
    assert failed(lab, items(lab)) == "column name of analytics.mart is generated — leave it out of the query"


def test_a_partitioned_mart_works(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, name text) PARTITION BY HASH (id)")
    for n in range(3):
        lab.sql(f"CREATE TABLE analytics.p{n} PARTITION OF analytics.mart FOR VALUES WITH (MODULUS 3, REMAINDER {n})")
    pipeline = items(lab)
    assert went(lab, pipeline) == (10, 0)
    lab.sql("UPDATE content.item SET name = 'other' WHERE id < 4; DELETE FROM content.item WHERE id > 8")
    assert went(lab, pipeline) == (3, 2)
    lab.assert_equal(pipeline)


# ── drift ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_column_is_drift(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY)")
    assert failed(lab, items(lab)) == (
        "drift: analytics.mart has no column name — "
        "set on_drift: add, or ALTER TABLE analytics.mart ADD COLUMN name text"
    )


def test_a_new_column_is_added_when_that_is_wanted(lab: Lab) -> None:
    pipeline = items(lab, source_query=None, source_table="content.item", on_drift="add")
    went(lab, pipeline)
    lab.sql("ALTER TABLE content.item ADD COLUMN tags text[] DEFAULT '{a}'")
    assert went(lab, pipeline) == (10, 0)
    lab.assert_equal(pipeline)


@pytest.mark.scenario(33)
def test_a_column_dropped_at_the_source_fails_and_leaves_the_mart_intact(lab: Lab) -> None:
    pipeline = items(lab, source_query=None, source_table="content.item")
    went(lab, pipeline)
    lab.sql("ALTER TABLE content.item DROP COLUMN name")
    expected = "drift: the query no longer gives name, which analytics.mart has"
    assert failed(lab, pipeline).startswith(expected)
    assert failed(lab, pipeline).startswith(expected)


@pytest.mark.scenario(33)
def test_a_column_retyped_at_the_source_fails_and_leaves_the_mart_intact(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id bigint PRIMARY KEY, name text)")
    pipeline = items(lab, source_query=None, source_table="content.item")
    went(lab, pipeline)
    lab.sql("ALTER TABLE content.item ALTER COLUMN name TYPE varchar(20)")
    assert "drift: the query changed the type of name from text to character varying(20)" in failed(lab, pipeline)


def test_a_column_dropped_from_the_query_by_an_edit_is_drift(lab: Lab) -> None:
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET source_query = 'SELECT id FROM content.item'")
    assert "drift: the query no longer gives name" in failed(lab, pipeline)
    lab.sql("ALTER TABLE analytics.mart DROP COLUMN name")
    assert went(lab, pipeline) == (0, 0)


def test_a_domain_column_takes_what_its_base_type_does(lab: Lab) -> None:
    lab.sql("CREATE DOMAIN public.short AS text; CREATE TABLE analytics.mart (id int PRIMARY KEY, name public.short)")
    pipeline = items(lab)
    assert went(lab, pipeline)[0] > 0
    lab.assert_equal(pipeline)


def test_a_missing_source_table_is_explained(lab: Lab) -> None:
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("DROP TABLE content.item")
    assert 'relation "content.item" does not exist' in failed(lab, pipeline)


def test_a_value_too_long_fails_rather_than_being_cut(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, name varchar(7))")
    pipeline = items(lab, 9)
    assert went(lab, pipeline) == (9, 0)
    lab.sql("UPDATE content.item SET name = 'much longer' WHERE id = 1")
    assert "value too long for type character varying(7)" in failed(lab, pipeline)
    lab.sql("TRUNCATE analytics.mart; DELETE FROM content.item WHERE id > 1")
    assert "value too long for type character varying(7)" in failed(lab, pipeline)


@pytest.mark.parametrize("type_", ["uuid", "integer", "jsonb", "character(5)", "text[]", "boolean"])
def test_a_type_that_does_not_fit_is_explained(lab: Lab, type_: str) -> None:
    lab.sql(f"CREATE TABLE analytics.mart (id int PRIMARY KEY, name {type_})")
    assert failed(lab, items(lab)) == (
        f"drift: column name of analytics.mart is {type_}, the query gives text — "
        f"cast it in the query: CAST(name AS {type_})"
    )


@pytest.mark.parametrize("mart", ["tag text", "tag content.tag", "tag varchar(9)"])
@pytest.mark.parametrize("code", ["CAST (content.tag AS text)", "CAST (content.tag AS varchar)", "OPERATOR public.="])
def test_code_of_the_source_never_runs_with_the_right_to_write(lab: Lab, code: str, mart: str) -> None:
    """A cast or an `=` of the source's own would run in the statement that writes the mart."""
    lab.sql("CREATE TYPE content.tag AS ENUM ('a', 'b')")
    lab.sql("CREATE TABLE content.t AS SELECT 1 AS id, 'a'::content.tag AS tag")
    lab.sql("CREATE TABLE content.spied (who text); GRANT INSERT ON content.spied TO PUBLIC")
    spy = "IF current_user <> 'vitrina_reader' THEN INSERT INTO content.spied VALUES (current_user); END IF"
    body = f"LANGUAGE plpgsql AS $$ BEGIN {spy}; RETURN %s; END $$"
    if code.startswith("CAST"):
        lab.sql(f"CREATE FUNCTION content.spell(content.tag) RETURNS {code[21:-1]} {body % 'chr(97)'}")
        lab.sql(f"CREATE {code} WITH FUNCTION content.spell AS ASSIGNMENT")
    else:
        lab.sql(f"CREATE FUNCTION content.same(content.tag, content.tag) RETURNS boolean {body % 'false'}")
        lab.sql(f"CREATE {code} (LEFTARG = content.tag, RIGHTARG = content.tag, FUNCTION = content.same)")
    lab.sql(f"CREATE TABLE analytics.mart (id int, {mart}, PRIMARY KEY (id, tag))")
    lab.sql("INSERT INTO analytics.mart VALUES (1, 'b')")
    cursor = {"mode": "incremental", "incremental_key": "id", "incremental_id_key": "id"}
    lab.run(lab.add(source_query="SELECT id, tag FROM content.t", key=["id", "tag"], **cursor))
    assert lab.sql("SELECT who FROM content.spied") == []


def test_a_cast_of_the_sources_own_is_named(lab: Lab) -> None:
    lab.sql("CREATE TYPE content.tag AS ENUM ('a', 'b')")
    lab.sql("CREATE FUNCTION content.spell(content.tag) RETURNS text LANGUAGE sql RETURN 'x'")
    lab.sql("CREATE CAST (content.tag AS text) WITH FUNCTION content.spell AS ASSIGNMENT")
    lab.sql("CREATE TABLE content.t AS SELECT 1 AS id, 'a'::content.tag AS tag")
    error = lab.run(lab.add(source_query="SELECT id, tag FROM content.t", key=["id"]))["said"]
    assert "column tag is of type content.tag, which goes through the user-defined content.spell(content.tag)" in error


def test_types_that_fit_are_converted(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id bigint PRIMARY KEY, a numeric, b text, c timestamptz, d double precision)")
    select = "SELECT id, id AS a, id AS b, date '2024-01-01' AS c, id AS d FROM content.item"
    pipeline = items(lab, source_query=select)
    assert went(lab, pipeline) == (10, 0)
    assert went(lab, pipeline) == (0, 0)
    lab.sql("DELETE FROM content.item WHERE id = 1")
    assert went(lab, pipeline) == (0, 1)
    row = lab.sql("SELECT a::text, b, c = '2024-01-01 00:00Z' FROM analytics.mart WHERE id = 2")
    assert row == [("2", "2", True)]


def test_a_cursor_that_the_mart_lacks_is_read_and_not_written(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, name text)")
    select = "SELECT id, name, n FROM content.item, LATERAL (SELECT id * 10 AS n) AS o"
    pipeline = items(lab, source_query=select, mode="incremental", incremental_key="n")
    assert went(lab, pipeline) == (10, 0)
    lab.sql(
        "ALTER TABLE content.item ALTER COLUMN id TYPE bigint; ALTER TABLE analytics.mart ALTER COLUMN id TYPE bigint"
    )
    lab.sql("INSERT INTO content.item VALUES (11, 'new')")
    assert went(lab, pipeline) == (1, 0)  # although its type has changed
    lab.assert_equal(pipeline)


# ── targets ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("target", "said"),
    [
        *(
            (other, "VITRINA_ALLOWED_TARGET_TABLES allows analytics.*")
            for other in ("content.film_work", "etl.etl_pipelines")
        ),
        *(
            (odd, "no mart can be called so — name it schema.table")
            for odd in ("analytics.Mart", "mart", "analytics.a.b")
        ),
        ("", "names no target_table"),
    ],
)
def test_a_target_that_is_not_allowed_is_refused(lab: Lab, target: str, said: str) -> None:
    assert said in failed(lab, items(lab, target_table=target))


def test_an_index_that_is_not_allowed_is_refused(lab: Lab) -> None:
    assert "VITRINA_ALLOWED_ES_INDEXES allows nothing" in failed(lab, items(lab, target_table="es:films"))


def test_two_pipelines_on_one_target_are_refused(lab: Lab) -> None:
    items(lab)
    with pytest.raises(VitrinaError, match=r"analytics\.mart"):
        lab.add(name="second", source_query=FILMS)


def test_two_pipelines_on_one_target_by_a_task_are_refused(lab: Lab) -> None:
    items(lab)
    tasks = [{"order_index": 1, "task_type": "SQL", "body": FILMS, "target_table": "analytics.mart"}]
    with pytest.raises(VitrinaError, match=r"analytics\.mart"):
        lab.add(name="second", target_table="analytics.other", tasks=tasks)
    lab.add(name="third", target_table="analytics.third", tasks=[tasks[0] | {"target_table": None}])
    with pytest.raises(psycopg.errors.UniqueViolation):
        lab.sql("UPDATE etl.etl_pipeline_tasks SET target_table = 'analytics.mart'")


# ── the mass-delete guard ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("publish", ["batches", "atomic"])
def test_an_emptied_source_deletes_nothing(lab: Lab, publish: str) -> None:
    pipeline = items(lab, publish=publish)
    went(lab, pipeline)
    lab.sql("TRUNCATE content.item")
    assert failed(lab, pipeline) == (
        "this would delete 10 of 10 rows of analytics.mart (the query gives no rows at all); nothing was written — "
        "look at the source; if it is right, run once with allow_deletes"
    )
    assert went(lab, pipeline, allow_deletes=True) == (0, 10)


def test_many_deletes_are_refused_before_anything_is_written(lab: Lab) -> None:
    pipeline = items(lab, 300, batch_size=50)
    went(lab, pipeline)
    lab.sql("DELETE FROM content.item WHERE id > 120; UPDATE content.item SET name = 'other'")
    assert "would delete 180 of 300 rows of analytics.mart (more than 50%)" in failed(lab, pipeline)
    assert went(lab, pipeline, allow_deletes=True) == (120, 180)


def test_allow_deletes_is_for_one_run(lab: Lab) -> None:
    pipeline = items(lab)
    went(lab, pipeline, allow_deletes=True)
    lab.sql("TRUNCATE content.item")
    assert "would delete" in failed(lab, pipeline)


@pytest.mark.parametrize(("rows", "gone"), [(300, 150), (110, 100)])
def test_deletes_up_to_the_limits_pass(lab: Lab, rows: int, gone: int) -> None:
    pipeline = items(lab, rows, batch_size=50)
    went(lab, pipeline)
    lab.sql("DELETE FROM content.item WHERE id <= %s", gone)
    assert went(lab, pipeline) == (0, gone)


# ── keys that are no keys ────────────────────────────────────────────────────────────────────────────────────────

PATHS: dict[str, dict[str, Any]] = {
    "in place": {},
    "staged": {"publish": "atomic"},
    "incremental": {"mode": "incremental", "incremental_key": "n", "incremental_id_key": "n"},
}
NUMBERED = "SELECT id, name, n FROM content.item, LATERAL (SELECT coalesce(id, 0) AS n) AS o"


@pytest.mark.scenario(29)
@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.parametrize("loaded", [False, True])
def test_a_null_key_is_named(lab: Lab, path: str, loaded: bool) -> None:
    lab.sql("CREATE TABLE analytics.mart (id int UNIQUE, name text, n int)")
    pipeline = items(lab, **({"source_query": NUMBERED} | PATHS[path]))
    if loaded:
        went(lab, pipeline)
    lab.sql("INSERT INTO content.item VALUES (null, 'nobody')")
    assert "a row with NULL in its key" in (error := failed(lab, pipeline))
    assert "id = None, " in error
    assert "name = nobody" in error


@pytest.mark.scenario(30)
@pytest.mark.parametrize("path", list(PATHS))
@pytest.mark.parametrize("name", ["item 3", "another"])
def test_a_duplicate_key_is_named_when_loading(lab: Lab, path: str, name: str) -> None:
    pipeline = items(lab, **({"source_query": NUMBERED} | PATHS[path]))
    lab.sql("INSERT INTO content.item VALUES (3, %s)", name)
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert "a key twice: id = 3" in run["said"] or "a key twice: Key (id)=(3)" in run["said"]


@pytest.mark.scenario(30)
@pytest.mark.parametrize("path", ["in place", "staged"])
@pytest.mark.parametrize("name", ["item 3", "another"])
def test_a_duplicate_key_is_named_when_comparing(lab: Lab, path: str, name: str) -> None:
    pipeline = items(lab, **PATHS[path])
    went(lab, pipeline)
    lab.sql("INSERT INTO content.item VALUES (3, %s)", name)
    assert "a key twice: id = 3" in failed(lab, pipeline)


@pytest.mark.parametrize("path", ["in place", "staged"])
def test_a_duplicate_of_a_composite_key_is_named(lab: Lab, path: str) -> None:
    pipeline = items(lab, key=["name", "id"], **PATHS[path])
    went(lab, pipeline)
    lab.sql("INSERT INTO content.item VALUES (3, 'item 3'), (4, 'item 3'), (3, 'item 4')")
    assert "the query gives a key twice: name = item 3, id = 3 —" in failed(lab, pipeline)


def test_a_duplicate_that_python_cannot_hold_is_named(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.day (d date, n int); INSERT INTO content.day VALUES ('infinity', 1)")
    pipeline = lab.add(source_table="content.day", key=["d"])
    went(lab, pipeline)
    lab.sql("INSERT INTO content.day VALUES ('infinity', 1)")
    assert "a key twice: d = infinity" in failed(lab, pipeline)


def test_a_group_that_comes_out_as_several_rows_is_named(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.bag AS SELECT n AS id, array[n] AS things FROM generate_series(1, 5) n")
    select = "SELECT id, unnest(min(things)) AS thing FROM content.bag GROUP BY id"
    pipeline = lab.add(source_query=select, key=["id"])
    went(lab, pipeline)
    lab.sql("UPDATE content.bag SET things = '{3,7}' WHERE id = 3")
    assert "a key twice: id = 3" in failed(lab, pipeline)


# ── publishing at once ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_atomic_mart_is_never_seen_half_written(lab: Lab) -> None:
    pipeline = items(lab, 500, publish="atomic", batch_size=7)
    seen: set[tuple[int, int]] = set()
    done = threading.Event()

    def watch() -> None:
        with psycopg.connect(lab.conninfo, autocommit=True) as conn:
            while not done.is_set():
                row = conn.execute("SELECT count(*), count(DISTINCT name) FROM analytics.mart").fetchone()
                assert row is not None
                seen.add(row)

    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, name text)")
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        assert went(lab, pipeline) == (500, 0)
        lab.sql("DELETE FROM content.item WHERE id % 5 = 0; UPDATE content.item SET name = 'one name'")
        assert went(lab, pipeline) == (400, 100)
        assert went(lab, pipeline) == (0, 0)
    finally:
        done.set()
        watcher.join()
    assert seen <= {(0, 0), (500, 500), (400, 1)}
    lab.assert_equal(pipeline)


# ── changes at the source while a run is under way ───────────────────────────────────────────────────────────────


def between(monkeypatch: pytest.MonkeyPatch, step: str, act: Callable[[], Any]) -> None:
    """Let something happen before each step of a kind."""
    original = getattr(Differing, step)

    def stepped(self: Differing, *args: Any) -> Any:
        act()
        return original(self, *args)

    monkeypatch.setattr(Differing, step, stepped)


def test_a_row_deleted_after_it_was_found_missing_is_not_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("INSERT INTO content.item VALUES (11, 'new'), (12, 'newer')")
    between(monkeypatch, "_upsert", lambda: lab.sql("DELETE FROM content.item WHERE id = 11"))
    assert went(lab, pipeline) == (1, 0)
    lab.assert_equal(pipeline)


def test_a_row_that_returns_after_it_was_found_gone_is_not_deleted(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("DELETE FROM content.item WHERE id < 3")
    between(monkeypatch, "_delete", lambda: lab.sql("INSERT INTO content.item VALUES (1, 'item 1')"))
    assert went(lab, pipeline) == (0, 1)
    lab.assert_equal(pipeline)


def test_the_latest_value_is_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("UPDATE content.item SET name = 'second' WHERE id = 1")
    between(monkeypatch, "_upsert", lambda: lab.sql("UPDATE content.item SET name = 'third' WHERE id = 1"))
    assert went(lab, pipeline) == (1, 0)
    lab.assert_equal(pipeline)


def test_a_key_that_turns_double_while_a_run_is_under_way_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = items(lab)
    went(lab, pipeline)
    lab.sql("UPDATE content.item SET name = 'second' WHERE id = 1")
    between(monkeypatch, "_upsert", lambda: lab.sql("INSERT INTO content.item VALUES (1, 'double')"))
    run = lab.run(pipeline)
    assert run["status"] == "FAILED"
    assert lab.value("SELECT name FROM analytics.mart WHERE id = 1") == "item 1"
