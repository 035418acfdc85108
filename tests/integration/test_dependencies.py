"""A live mart is compared when something else than a row has changed that its result depends on, at rest too."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.catalogue import ALL, CASES, NAMES, OURS, REPLACE, SETUP, STEPS
from tests.elastic import open_search
from tests.living import Living, images, living, living_elsewhere
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.meta.repos.dependencies import DependencyRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner

SHOUTED = "SELECT id, content.shout(title) AS title FROM content.song"
LOUDER = REPLACE.format("shout(t text) RETURNS text", "t || '!!'")
ALLOWED = "SELECT id, title FROM content.song WHERE id NOT IN (SELECT song FROM content.banned)"
QUICK = {"allowed_functions": OURS, "dependency_seconds": 0}


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    lab.sql(SETUP)
    lab.configure(**QUICK)
    with living(lab, "trigger", NAMES) as live:
        yield live


def at_rest(live: Living) -> None:
    """As a runner does that finds nothing to do."""
    Runner(live.lab.connections).run_once()


def assert_equal_for_the_reader(live: Living, pipeline: Pipeline, user: str = "vitrina_reader") -> None:
    """As the reader sees it, since policies hold for it."""
    with connect(make_conninfo(live.captured.conn.info.dsn, user=user), "oracle") as reader:
        reader.execute("SET search_path = pg_catalog, public, content")
        mart = images(live.lab.db, f"SELECT * FROM {pipeline.target_table}")
        assert mart == images(reader, str(pipeline.source_query)), pipeline.name


@pytest.mark.parametrize("steps", [STEPS[:7], STEPS[7:11], STEPS[11:]], ids=["functions", "types", "policies"])
def test_a_mart_at_rest_is_compared_when_the_catalogue_changes(live: Living, steps: Sequence[tuple[str, str]]) -> None:
    functions = [*OURS, "content.cry", "public.shout"]
    live.lab.configure(search_path=["public", "content"], allowed_functions=functions)
    pipeline = live.add(ALL, ["id"])
    live.follow(pipeline)
    for ddl, said in steps:
        before = live.lab.sql("SELECT * FROM analytics.mart ORDER BY 1")
        live.captured.run(ddl)
        at_rest(live)
        assert live.lab.last_run(pipeline)["error"] is None, ddl
        assert said in live.why(pipeline)
        assert_equal_for_the_reader(live, pipeline)
        assert live.lab.sql("SELECT * FROM analytics.mart ORDER BY 1") != before, ddl


def test_what_shows_in_no_row_of_these_is_compared_too(live: Living) -> None:
    """Values that a type allows, how a function takes NULLs and what it sets, the version of a collation."""
    live.captured.run("CREATE COLLATION content.plain (provider = libc, locale = 'C')")
    values = "price, content.shout(title) AS shouted, title < 'm' COLLATE content.plain AS early"
    pipeline = live.add(f"SELECT id, {values} FROM content.song", ["id"])
    live.follow(pipeline)
    for ddl, said in (
        ("ALTER DOMAIN content.small DROP CONSTRAINT small_check", "the type content.small allows other values"),
        ("ALTER FUNCTION content.shout(text) STRICT", "the function content.shout has another way with NULLs"),
        ("ALTER FUNCTION content.shout(text) SET lc_time = 'C'", "the function content.shout has other settings"),
        (
            "UPDATE pg_collation SET collversion = '1' WHERE collname = 'plain'",
            "the collation content.plain has version 1",
        ),
    ):
        live.assert_equal(pipeline)
        live.captured.run(ddl)
        at_rest(live)
        assert said in live.why(pipeline)


# ── what only decides how the query is judged ────────────────────────────────────────────────────────────────


def test_a_column_that_may_be_null_now_is_judged_anew(live: Living) -> None:
    lab, pipeline = live.lab, live.add(ALLOWED, ["id"])
    live.follow(pipeline)
    assert lab.value("SELECT count(*) FROM analytics.mart") == 7
    live.captured.run("ALTER TABLE content.banned ALTER song DROP NOT NULL")
    live.captured.run("INSERT INTO content.banned VALUES (NULL)")
    live.follow(pipeline, allow_deletes=True)
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0
    live.assert_equal(pipeline)


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("ALTER TABLE content.banned ALTER song DROP NOT NULL", "column song of content.banned may be NULL now"),
        (
            "ALTER TABLE content.banned DROP CONSTRAINT banned_song_key",
            "song of content.banned may come twice now",
        ),
        ("CREATE CAST (content.mood AS integer) WITH INOUT", "casts were made or dropped"),
    ],
)
def test_what_makes_no_row_wrong_is_said_and_nothing_is_compared(live: Living, ddl: str, said: str) -> None:
    pipeline = live.add(ALLOWED, ["id"])
    live.follow(pipeline)
    live.captured.run(ddl)
    at_rest(live)
    assert ("judged_anew", said) in [(event, fields.get("why")) for event, fields in live.told(pipeline)]
    assert live.why(pipeline) == ""
    at_rest(live)
    assert live.events(pipeline).count("judged_anew") == 1


def test_a_key_that_a_group_relied_on_and_is_gone_fails_with_the_reason(live: Living) -> None:
    joined = "content.album a JOIN content.song s ON s.album = a.id"
    select = f"SELECT a.id, a.name, count(*) AS n FROM {joined} GROUP BY a.id"
    pipeline = live.add(select, ["id"])
    live.follow(pipeline)
    live.captured.run("ALTER TABLE content.album DROP CONSTRAINT album_pkey")
    at_rest(live)
    assert "must appear in the GROUP BY clause" in live.lab.last_run(pipeline)["said"]


# ── other places ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["a view", "a label in a row", "a policy changed"])
def test_an_index_is_compared_too(live: Living, elastic: str, index_prefix: str, name: str) -> None:
    case = CASES[name]
    with open_search(live.lab, elastic, index_prefix) as search:
        pipeline = search.add(source_query=case.select, key=["id"], mode="live")
        live.follow(pipeline)
        live.captured.run(case.ddl)
        at_rest(live)
        assert case.said in live.why(pipeline)
        live.lab.sql("SET ROLE vitrina_reader")
        wanted = search.wanted(pipeline, "id")
        live.lab.sql("RESET ROLE")
        assert search.documents() == wanted


@pytest.fixture
def elsewhere(lab: Lab) -> Iterator[Living]:
    """The source is another database, and its reader a role of this test's own."""
    lab.configure(**QUICK)
    user = sql.Identifier(role := f"reader_{lab.db.info.dbname}")
    with living_elsewhere(lab, "trigger", NAMES, SETUP) as live:
        origin = live.captured.conn
        origin.execute(sql.SQL("CREATE ROLE {0} LOGIN; GRANT vitrina_reader TO {0}").format(user))
        origin.execute("DROP POLICY seen ON content.album; CREATE POLICY seen ON content.album USING (NOT hidden)")
        sources = {"other": make_conninfo(origin.info.dsn, user=role)}
        lab.connections = replace(lab.connections, sources=sources)
        try:
            yield live
        finally:
            origin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(user))


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("ALTER ROLE {} BYPASSRLS", "is exempt from policies"),
        ("ALTER ROLE {} SUPERUSER", "is a superuser"),
        # Without the right to see sessions it would wait for those of other databases, too.
        (
            "REVOKE vitrina_reader FROM {}; GRANT pg_read_all_data, pg_read_all_stats TO {}",
            "is a member of other roles",
        ),
        ("ALTER POLICY seen ON content.album USING (true)", "the policy seen of content.album was changed"),
    ],
)
def test_what_policies_mean_for_the_reader_of_another_server_is_watched(elsewhere: Living, ddl: str, said: str) -> None:
    role = elsewhere.lab.connections.sources["other"].split("user=")[1].split()[0]
    if "pg_read_all_data" in ddl:
        elsewhere.captured.run("ALTER POLICY seen ON content.album TO vitrina_reader USING (NOT hidden)")
    pipeline = elsewhere.add("SELECT id, name FROM content.album", ["id"])
    elsewhere.follow(pipeline)
    before = elsewhere.lab.sql("SELECT * FROM analytics.mart ORDER BY 1")
    elsewhere.lab.configure(max_delete_rows=100, max_delete_share=1)
    elsewhere.captured.run(ddl.replace("{}", role))
    if "pg_read_all_data" in ddl:  # no policy is for it any more, and an empty query is not believed
        at_rest(elsewhere)
        assert "the query gives no rows at all" in elsewhere.lab.last_run(pipeline)["said"]
    else:
        at_rest(elsewhere)
    assert said in elsewhere.why(pipeline)
    elsewhere.follow(pipeline, allow_deletes=True)
    assert_equal_for_the_reader(elsewhere, pipeline, role)
    assert elsewhere.lab.sql("SELECT * FROM analytics.mart ORDER BY 1") != before


def test_a_setting_of_the_role_that_changes_results_is_noticed(elsewhere: Living) -> None:
    role = elsewhere.lab.connections.sources["other"].split("user=")[1].split()[0]
    pipeline = elsewhere.add("SELECT id, to_tsvector('the ' || title)::text AS words FROM content.song", ["id"])
    elsewhere.captured.run(f"ALTER ROLE {role} SET default_text_search_config = 'pg_catalog.english'")
    elsewhere.follow(pipeline)
    elsewhere.captured.run(f"ALTER ROLE {role} SET default_text_search_config = 'pg_catalog.simple'")
    at_rest(elsewhere)
    assert "default_text_search_config is pg_catalog.simple, and was pg_catalog.english" in elsewhere.why(pipeline)
    assert_equal_for_the_reader(elsewhere, pipeline, role)


def test_what_the_role_that_writes_is_set_to_does_not_matter(live: Living) -> None:
    lab = live.lab
    lab.sql(f"ALTER ROLE vitrina_runner IN DATABASE {lab.db.info.dbname} SET default_text_search_config = 'english'")
    lab.sql(f"ALTER DATABASE {lab.db.info.dbname} SET default_text_search_config = 'simple'")
    pipeline = live.add("SELECT id, to_tsvector('the ' || title)::text AS words FROM content.song", ["id"])
    live.follow(pipeline)
    live.captured.run("UPDATE content.song SET title = title || '.'")
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    assert lab.value("SELECT bool_and(words LIKE '%the%') FROM analytics.mart")
    assert_equal_for_the_reader(live, pipeline)


def test_another_search_path_of_ours_is_noticed(live: Living) -> None:
    pipeline = live.add(SHOUTED, ["id"])
    live.follow(pipeline)
    live.lab.configure(search_path=["public", "content"])
    at_rest(live)
    assert "search_path is pg_catalog, public, content, pg_temp" in live.why(pipeline).replace('"', "")


def test_settings_that_are_pinned_change_nothing(elsewhere: Living) -> None:
    role = elsewhere.lab.connections.sources["other"].split("user=")[1].split()[0]
    values = r"'a\nb' AS t, '{NULL}'::text[] AS nulls, (title = NULL) AS never, '1 day'::interval::text AS day"
    select = f"SELECT id, {values} FROM content.song"
    pipeline = elsewhere.add(select, ["id"])
    elsewhere.follow(pipeline)
    before = elsewhere.lab.sql("SELECT * FROM analytics.mart ORDER BY 1")
    for name, value in {
        "standard_conforming_strings": "off", "array_nulls": "off", "transform_null_equals": "on",
        "IntervalStyle": "iso_8601", "DateStyle": "German", "xmlbinary": "hex", "backslash_quote": "on",
    }.items():  # fmt: skip
        elsewhere.captured.run(f"ALTER ROLE {role} SET {name} = '{value}'")
    elsewhere.captured.run("UPDATE content.song SET title = title || '.'")
    run = elsewhere.follow(pipeline)
    assert (run["rows_written"], elsewhere.why(pipeline)) == (0, "")
    assert elsewhere.lab.sql("SELECT * FROM analytics.mart ORDER BY 1") == before


# ── who looks, and what is shown ─────────────────────────────────────────────────────────────────────────────


def test_runners_take_turns_and_look_once_in_a_period(live: Living) -> None:
    live.follow(live.add(SHOUTED, ["id"]))
    repo = DependencyRepo(live.lab.db)
    assert [repo.turns(0), repo.turns(60), repo.turns(60)] == [["warehouse"], [], []]


def test_a_runner_notices_by_itself(live: Living) -> None:
    lab, pipeline = live.lab, live.add(SHOUTED, ["id"])
    lab.configure(dependency_seconds=0.2)
    live.follow(pipeline)
    with lab.runner():
        live.captured.run(LOUDER)
        wait_for(lambda: lab.value("SELECT bool_and(title LIKE '%!!') FROM analytics.mart"), 30)


def test_a_follower_that_waits_for_changes_notices_too(live: Living) -> None:
    lab, pipeline = live.lab, live.add(SHOUTED, ["id"])
    lab.configure(dependency_seconds=0.2)
    with lab.runner():
        wait_for(lambda: live.position(pipeline).get("compare_after"), 30)
        wait_for(lambda: lab.status(pipeline) == "FOLLOWING")
        live.captured.run(LOUDER)
        wait_for(lambda: lab.value("SELECT bool_and(title LIKE '%!!') FROM analytics.mart"), 30)


def test_one_on_a_schedule_is_not_woken_and_compares_when_it_is_due(live: Living) -> None:
    lab, pipeline = live.lab, live.add(SHOUTED, ["id"], schedule_interval="1d")
    live.follow(pipeline)
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() + interval '1 hour'")
    live.captured.run(LOUDER)
    at_rest(live)
    assert live.why(pipeline) == "it is not live yet"
    assert DependencyRepo(lab.db).find(pipeline.id).changed == "the function content.shout was replaced"  # type: ignore[union-attr]
    live.follow(pipeline)
    assert live.why(pipeline) == "the function content.shout was replaced"
    live.assert_equal(pipeline)
    assert DependencyRepo(lab.db).find(pipeline.id).changed is None  # type: ignore[union-attr]


def test_what_was_changed_back_at_rest_is_not_compared(live: Living) -> None:
    pipeline = live.add(SHOUTED, ["id"])
    live.follow(pipeline)
    PipelineRepo(live.lab.db).request_pause(pipeline.id)
    live.captured.run(LOUDER, REPLACE.format("shout(t text) RETURNS text", "t || '!'"))
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    live.assert_equal(pipeline)


def test_a_column_of_another_type_is_drift(live: Living) -> None:
    pipeline = live.add("SELECT id, title FROM content.shown", ["id"])
    live.follow(pipeline)
    live.captured.run("DROP VIEW content.shown CASCADE; CREATE VIEW content.shown AS SELECT id, 1 AS title"
                      " FROM content.song; GRANT SELECT ON content.shown TO vitrina_reader")  # fmt: skip
    at_rest(live)
    assert "drift: the query changed the type of title" in live.lab.last_run(pipeline)["said"]


def test_a_checkpoint_without_dependencies_is_taken_over_without_a_comparison(live: Living) -> None:
    lab, pipeline = live.lab, live.add(SHOUTED, ["id"])
    live.follow(pipeline)
    lab.sql("DELETE FROM etl.etl_dependencies")
    lab.sql("UPDATE etl.etl_state SET checkpoint = checkpoint #- '{live,depends}'")
    at_rest(live)
    assert live.why(pipeline) == ""
    assert DependencyRepo(lab.db).find(pipeline.id) is not None
    live.captured.run(LOUDER)
    at_rest(live)
    assert live.why(pipeline) == "the function content.shout was replaced"
    live.assert_equal(pipeline)
