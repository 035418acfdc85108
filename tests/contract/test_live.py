"""Live pipelines over HTTP: what validation says before, how fresh the mart is after, how its source is captured."""

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg.conninfo import make_conninfo

from tests.capturing import Captured
from tests.contract.server import FILMS, Api, config, serve
from tests.contract.test_console import sign_in
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina.capture.installation import remove
from vitrina.control.plane import ControlPlane
from vitrina.control.services.metrics import StateMetrics
from vitrina.control.services.pipelines import PipelineService
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.dependencies import DependencyDesk
from vitrina.runner.main import Runner

CARD = """
    SELECT f.id AS film_id, f.title, array_agg(g.name ORDER BY g.name) AS genres
    FROM content.film_work f
    JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    JOIN content.genre g ON g.id = fg.genre_id
    GROUP BY f.id
"""
BEST = "SELECT f.id AS film_id, f.title, (SELECT max(r.rating) FROM ugc.ratings r) AS best FROM content.film_work f"
LINKS = "SELECT fg.film_work_id AS film_id FROM content.genre_film_work fg JOIN changed c ON c.id = fg.genre_id"


def findings(api: Api, select: str = CARD, **more: Any) -> list[dict[str, str]]:
    """What validation says about a live pipeline."""
    answer = api.post("/validate", config(**({"source_query": select, "mode": "live"} | more)))
    assert answer.status_code == 200, answer.text
    return list(answer.json()["findings"])


def said(api: Api, level: str, where: str, select: str = CARD, **more: Any) -> dict[str, str]:
    """Message and remedy of the findings of one level about one field."""
    found = findings(api, select, **more)
    return {f["message"]: f["remedy"] for f in found if (f["level"], f["where"]) == (level, where)}


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_table_has_a_verdict(api: Api) -> None:
    verdicts = said(api, "info", "mode")
    assert "a change in content.genre refreshes the rows that carry it" in verdicts
    assert "a change in content.film_work refreshes the rows that carry it" in verdicts


def test_what_refreshes_everything_is_a_warning_with_the_reason_and_a_way_out(api: Api) -> None:
    ((message, remedy),) = [item for item in said(api, "warning", "mode", BEST).items() if "ugc.ratings ref" in item[0]]
    assert message.startswith("a change in ugc.ratings refreshes everything: ")
    assert "impact: {ugc.ratings: SELECT …}" in remedy


def test_a_replica_identity_that_lacks_a_column_is_named_with_its_remedy(api: Api) -> None:
    warned = said(api, "warning", "mode")
    lacking = "a change in content.genre_film_work refreshes everything: the old value of film_work_id is not told"
    assert warned[lacking] == "ALTER TABLE content.genre_film_work REPLICA IDENTITY FULL"
    api.lab.sql(warned[lacking])
    try:
        assert "a change in content.genre_film_work refreshes the rows that carry it" in said(api, "info", "mode")
    finally:
        api.lab.sql("ALTER TABLE content.genre_film_work REPLICA IDENTITY DEFAULT")


def test_triggers_tell_old_rows_whole(lab: Lab) -> None:
    Captured(lab, "trigger").install("content.film_work", "content.genre", "content.genre_film_work")
    with serve(lab) as api:
        assert "a change in content.genre_film_work refreshes the rows that carry it" in said(api, "info", "mode")
        assert said(api, "warning", "mode") == {}


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        (f"{FILMS} WHERE f.creation_date < current_date", "it reads the clock"),
        ("SELECT f.id AS film_id, f.xmin::text AS wrote FROM content.film_work f", "it reads a system column"),
    ],
)
def test_what_cannot_be_live_is_an_error_and_not_stored(api: Api, select: str, reason: str) -> None:
    ((message, remedy),) = said(api, "error", "mode", select).items()
    assert reason in message
    assert "mode full" in remedy
    refused = api.post("/pipelines", config(source_query=select, mode="live"))
    assert (refused.status_code, reason in refused.json()["detail"]) == (422, True)


def test_what_makes_a_mart_flicker_is_a_warning(api: Api) -> None:
    select = CARD.replace(" ORDER BY g.name", "")
    assert "array_agg has no ORDER BY: the same rows may come in another order" in said(
        api, "warning", "source_query", select
    )


def test_the_key_of_an_existing_mart_will_do(api: Api) -> None:
    api.lab.sql("CREATE TABLE analytics.films (film_id uuid PRIMARY KEY, title text, genres text[])")
    assert "a change in content.genre refreshes the rows that carry it" in said(api, "info", "mode", key=[])


# ── capture ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_captured_is_a_warning_with_the_exact_command(api: Api) -> None:
    ((message, remedy),) = [
        item for item in said(api, "warning", "mode").items() if item[0].startswith("changes are not captured")
    ]
    assert "content.genre: it is not captured" in message
    tables = "content.film_work,content.genre,content.genre_film_work"
    assert remedy == f"vitrina capture install --source warehouse --tables {tables}"


def test_only_what_a_capture_lacks_is_asked_for(lab: Lab) -> None:
    Captured(lab, "wal").install("content.film_work", "content.genre_film_work")
    with serve(lab) as api:
        assert (
            "vitrina capture install --source warehouse --tables content.genre" in said(api, "warning", "mode").values()
        )
        Captured(lab, "wal").install("content.genre")
        said_now = said(api, "info", "mode")
        assert "changes of content.film_work, content.genre, content.genre_film_work are captured" in said_now


def test_an_editor_is_told_the_same(lab: Lab) -> None:
    Captured(lab, "wal").install("content.film_work", "content.genre_film_work", "content.genre")
    plane = ControlPlane(make_conninfo(lab.conninfo, user="vitrina_api"), lab.connections)
    pipeline = Pipeline.parse(config(source_query=CARD, mode="live"))
    with plane.pool:
        service = PipelineService(plane, "tester")
        found, columns = service.examine(pipeline)
        assert found == service.findings(pipeline)
    assert any("are captured" in finding.message for finding in found)
    assert [column.name for column in columns] == ["film_id", "title", "genres"]


# ── impact queries of the user's own ─────────────────────────────────────────────────────────────────────────


def test_an_own_impact_query_takes_the_place_of_the_verdict(api: Api) -> None:
    own = {"content.genre": f"{LINKS};"}
    verdicts = said(api, "info", "mode", impact=own)
    assert "a change in content.genre refreshes what the pipeline's own impact query gives" in verdicts
    assert "a change in content.genre refreshes the rows that carry it" not in verdicts
    assert said(api, "error", "impact", impact=own) == {}


HOSTILE = {
    "DELETE FROM content.genre": "must be a SELECT",
    "SELECT id AS film_id FROM changed; SELECT 1": "one SELECT, not 2 statements",
    "SELECT id AS film_id FROM changed) AS x, (SELECT 1": "does not parse",
    "SELECT u.id AS film_id FROM auth.users u, changed": "schema auth is not allowed",
    "SELECT id AS film_id FROM changed WHERE pg_sleep(1) IS NULL": "pg_sleep",
    "SELECT id AS film_id FROM changed FOR UPDATE": "FOR UPDATE",
    "WITH x AS (DELETE FROM content.genre RETURNING id) SELECT id AS film_id FROM x, changed": "DELETE inside",
    "SELECT f.id AS film_id FROM content.film_work f": "does not read the relation changed",
    "SELECT id, name FROM changed": "gives id",
    "SELECT nothing AS film_id FROM changed": "nothing",
}


@pytest.mark.parametrize("query", HOSTILE)
def test_an_own_impact_query_is_guarded_and_has_to_have_the_form(api: Api, query: str) -> None:
    ((message, _),) = said(api, "error", "impact", impact={"content.genre": query}).items()
    assert HOSTILE[query] in message
    assert "content.genre" in message


@pytest.mark.parametrize(
    "table", ["content.nowhere", "ugc.ratings", "auth.users", "genre", 'content.genre" AS g; DROP TABLE x; --']
)
def test_an_impact_query_is_for_a_table_that_the_query_reads(api: Api, table: str) -> None:
    ((message, _),) = said(api, "error", "impact", impact={table: "SELECT id AS film_id FROM changed"}).items()
    assert table in message


def test_in_another_mode_impact_is_not_used_and_said_so(api: Api) -> None:
    warned = said(api, "warning", "impact", FILMS, mode="full", impact={"content.genre": "nonsense"})
    assert list(warned) == ["is for mode live, and not used by this one"]


def test_a_run_guards_impact_queries_too(lab: Lab) -> None:
    with living(lab, "wal", ["content.film_work", "content.genre", "content.genre_film_work"]) as live:
        pipeline = live.add(CARD, impact={"content.genre": "SELECT u.id AS film_id FROM auth.users u, changed"})
        slow = live.add(
            CARD,
            name="slow",
            target_table="analytics.slow",
            impact={"content.genre": "SELECT id AS film_id FROM changed WHERE pg_sleep(1) IS NULL"},
        )
        for each, reason in ((pipeline, "schema auth is not allowed"), (slow, "pg_sleep")):
            lab.request(each)
            Runner(lab.connections).run_once(each.id)
            run = lab.last_run(each)
            assert (run["status"], run["attempt"]) == ("FAILED", 1)
            assert "impact of content.genre" in run["error"]
            assert reason in run["error"]


def test_an_own_impact_query_is_what_a_run_follows(lab: Lab) -> None:
    with living(lab, "wal", ["content.film_work", "content.genre", "content.genre_film_work"]) as live:
        pipeline = live.add(CARD, impact={"content.genre": f"{LINKS} ;"})
        live.follow(pipeline)
        lab.sql("UPDATE content.genre SET name = name || '!'")
        run = live.follow(pipeline)
        assert run["rows_written"] > 0
        assert "comparing" not in live.events(pipeline)
        live.assert_equal(pipeline)


# ── freshness ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    """The cinema, captured."""
    with living(lab, "wal") as found:
        yield found


@pytest.fixture
def watched(live: Living) -> Iterator[Api]:
    """An API beside it."""
    with serve(live.lab) as found:
        yield found


def test_freshness_from_not_live_to_following(live: Living, watched: Api) -> None:
    pipeline = live.add(CARD)
    before = watched.get("/pipelines/mart/status", role="viewer")["live"]
    assert (before["state"], before["behind"], before["lag_ms"]) == ("not live", None, None)
    live.follow(pipeline)
    lab = live.lab
    lab.sql("UPDATE content.genre SET name = name || '!' WHERE id IN (SELECT genre_id FROM content.genre_film_work)")
    live.catch_up()
    changed = lab.value("SELECT count(*) FROM content.genre WHERE name LIKE '%!'")
    late = watched.get("/pipelines/mart/status")["live"]
    assert late["state"] == "catching up"
    assert late["behind"] >= changed
    live.follow(pipeline)
    now = watched.get("/pipelines/mart/status")["live"]
    assert (now["state"], now["behind"], now["capture"]) == ("following", 0, [])
    assert now["lag_ms"] > 0
    assert now["committed_at"] < now["applied_at"]
    assert now["as_of"] > now["committed_at"]
    assert watched.get("/pipelines/mart/state")["live"].keys() == now.keys()
    assert watched.get("/pipelines")["items"][0]["live"]["state"] == "following"
    assert watched.get("/pipelines/mart")["live"]["lag_ms"] == now["lag_ms"]


def test_one_that_catches_up_says_how_fast_and_how_long_it_will_take_unless_it_stands_still(
    live: Living, watched: Api
) -> None:
    pipeline, lab = live.add(CARD), live.lab
    live.follow(pipeline)
    for _ in range(2):
        lab.sql(
            "UPDATE content.genre SET name = name || '!' WHERE id IN (SELECT genre_id FROM content.genre_film_work)"
        )
        live.catch_up()
        applied(lab, "0 s")
        late = watched.get("/pipelines/mart/status")["live"]
        applied(lab, "11 s")
        still = watched.get("/pipelines/mart/status")["live"]
        live.follow(pipeline)
    assert late["rate"] > 0
    assert (still["behind"], still["rate"], still["seconds_left"]) == (late["behind"], None, None)
    assert late["seconds_left"] == pytest.approx(late["behind"] / late["rate"], abs=0.06)
    assert (watched.get("/pipelines/mart/status")["live"]["seconds_left"], late["compares_at"]) == (None, None)


def applied(lab: Lab, ago: str) -> None:
    """The last change that it has arrived then."""
    at = f"to_jsonb(now() - interval '{ago}')"
    lab.sql(f"UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{{live,applied_at}}', {at})")


def test_one_that_waits_for_its_next_comparison_says_when_that_is(live: Living, watched: Api) -> None:
    live.follow(live.add(CARD))
    live.lab.sql("UPDATE content.film_work SET title = title || '!'")
    live.catch_up()
    moved = """UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live}', checkpoint -> 'live' ||
               '{"not_before": "2030-01-01T00:00:00+00:00", "compare_after": "2030-01-01T00:01:00+00:00"}')"""
    live.lab.sql(moved)
    now = watched.get("/pipelines/mart/status")["live"]
    assert (now["state"], now["compares_at"][:16], now["rate"]) == ("catching up", "2030-01-01T00:01", None)


def test_how_the_audit_stands_is_told(live: Living, watched: Api) -> None:
    lab = live.lab
    lab.configure(audit_share=1.0, audit_rest_seconds=3600)
    pipeline = live.add(CARD)
    live.follow(pipeline)
    assert watched.get("/pipelines/mart/status")["live"]["audit"]["share"] == 0
    lab.sql("UPDATE analytics.mart SET title = 'by hand' WHERE ctid = (SELECT ctid FROM analytics.mart LIMIT 1)")
    lab.sql("UPDATE etl.etl_mart_audits SET next_at = now()")
    live.follow(pipeline)
    status = watched.get("/pipelines/mart/status")
    assert (status["live"]["audit"]["share"], status["live"]["audit"]["wrong"]) == (1, 1)
    assert [incident["kind"] for incident in status["incidents"]] == ["wrong"]


def test_a_change_that_does_not_concern_a_mart_leaves_it_following(live: Living, watched: Api) -> None:
    live.follow(live.add(CARD))
    live.lab.sql("UPDATE ugc.ratings SET rating = 1")
    live.catch_up()
    now = watched.get("/pipelines/mart/status")["live"]
    assert (now["state"], now["behind"]) == ("following", 0)


def test_what_is_paused_is_stopped_and_another_generation_means_a_comparison(live: Living, watched: Api) -> None:
    live.follow(live.add(CARD))
    watched.post("/pipelines/mart/pause")
    live.lab.sql("UPDATE content.genre SET name = name || '!'")
    live.catch_up()
    stopped = watched.get("/pipelines/mart/status")["live"]
    assert (stopped["state"], stopped["behind"] > 0) == ("stopped", True)
    live.lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
    live.lab.sql("UPDATE etl.etl_captures SET generation = generation + 1, generation_reason = 'the slot was lost'")
    lost = watched.get("/pipelines/mart/status")["live"]
    assert (lost["state"], lost["behind"]) == ("compares next", None)
    assert lost["why"] == "changes may be missing: the slot was lost"


def test_what_has_changed_besides_rows_is_named_until_it_is_compared(live: Living, watched: Api) -> None:
    lab = live.lab
    view = "CREATE OR REPLACE VIEW content.titles AS SELECT id AS film_id, {} AS title FROM content.film_work"
    lab.sql(view.format("title"))
    lab.sql("GRANT SELECT ON content.titles TO vitrina_reader")
    pipeline = live.add("SELECT film_id, title FROM content.titles", schedule_interval="1d")
    live.follow(pipeline)
    lab.sql(view.format("upper(title)"))
    lab.configure(dependency_seconds=0)
    DependencyDesk(lab.connections, Event()).look(lab.db)
    now = watched.get("/pipelines/mart/status")["live"]
    assert (now["state"], now["why"]) == ("compares next", "the view content.titles was replaced")
    live.follow(pipeline)
    now = watched.get("/pipelines/mart/status")["live"]
    assert (now["state"], now["why"]) == ("following", None)


@pytest.mark.parametrize("how", ["it fails", "it never connected", "nobody captures"])
def test_nothing_follows_a_capture_that_does_not_work(live: Living, watched: Api, how: str) -> None:
    lab = live.lab
    live.follow(live.add(CARD))
    live.captured.stop()
    wait_for(lambda: lab.value("SELECT owner IS NULL FROM etl.etl_captures"))
    if how != "nobody captures":
        lab.sql("UPDATE etl.etl_captures SET last_error = 'cannot connect: no rights', failures = 3")
    if how == "it never connected":
        lab.sql("UPDATE etl.etl_captures SET caught_up_at = NULL")
    confirmed = lab.value("SELECT caught_up_at FROM etl.etl_captures")
    now = watched.get("/pipelines/mart/status")["live"]
    assert now["state"] == "capture stopped"
    assert ("no rights" if confirmed is None or how == "it fails" else "start one with: vitrina runner") in now["why"]
    assert (now["as_of"] is None) == (confirmed is None)
    assert watched.get("/pipelines")["items"][0]["live"]["state"] == "capture stopped"
    assert captured_by_metrics(lab) == 0
    with sign_in(watched, "viewer") as console:
        assert "capture stopped" in console.get("/pipelines/mart").text
        assert "capture stopped" in console.get("/").text
    live.captured.start()
    wait_for(lambda: watched.get("/pipelines/mart/status")["live"]["state"] == "following", 30)
    wait_for(lambda: captured_by_metrics(lab) == 1, 30)


def captured_by_metrics(lab: Lab) -> float | None:
    """As Prometheus would see it, whom an API tells what it saw a moment ago."""
    plane = ControlPlane(make_conninfo(lab.conninfo, user="vitrina_api"), lab.connections)
    with plane.pool:
        told = StateMetrics(plane).exposition().decode()
    found = [sample for family in text_string_to_metric_families(told) for sample in family.samples]
    return next((sample.value for sample in found if sample.name == "vitrina_pipeline_captured"), None)


def test_a_mart_whose_capture_is_installed_anew_goes_live_again_by_itself(live: Living, watched: Api) -> None:
    lab, pipeline, tables = live.lab, live.add(CARD), live.captured.capture.tables
    live.follow(pipeline)
    live.captured.stop()
    tables = live.captured.capture.tables
    remove(lab.db, live.captured.conn, live.captured.capture)
    assert watched.get("/pipelines/mart/status")["live"]["state"] == "not captured"
    lab.sql("UPDATE content.genre SET name = name || '!'")
    live.captured.install(*tables)
    lab.configure(poll_seconds=0.1)
    with lab.runner():
        wait_for(lambda: watched.get("/pipelines/mart/status")["live"]["state"] == "following", 30)
    live.assert_equal(pipeline)


def test_a_pipeline_of_another_mode_has_no_freshness(api: Api) -> None:
    api.create()
    assert api.get("/pipelines/films/status")["live"] is None
    assert api.get("/pipelines/films/state")["live"] is None
    api.create("card", source_query=CARD, mode="live")
    assert api.get("/pipelines/card/status")["live"]["state"] == "not captured"


# ── captures ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_captures_are_listed_with_their_followers(live: Living, watched: Api) -> None:
    live.follow(live.add(CARD))
    (found,) = watched.get("/captures", role="viewer")
    assert (found["source"], found["kind"], found["generation"]) == ("warehouse", "wal", 1)
    assert found["runner"] == "desk 0"
    assert found["wal_status"] == "reserved"
    assert found["safe_wal_size"] > 0
    assert found["error"] is None
    assert [(p["name"], p["status"]) for p in found["pipelines"]] == [("mart", "FOLLOWING")]
    assert found["warnings"] == []


def test_a_capture_in_trouble_says_so_also_on_its_pipelines(live: Living, watched: Api) -> None:
    live.follow(live.add(CARD))
    live.captured.stop()
    live.lab.sql("UPDATE etl.etl_captures SET last_error = 'no route to host', safe_wal_size = 1000000")
    (found,) = watched.get("/captures")
    assert found["runner"] is None
    assert any("no route to host" in warning for warning in found["warnings"])
    assert any("after 1 MB more of WAL the slot is lost" in warning for warning in found["warnings"])
    assert watched.get("/pipelines/mart/status")["live"]["capture"] == found["warnings"]


def test_no_captures_are_no_problem(api: Api) -> None:
    assert api.get("/captures") == []
