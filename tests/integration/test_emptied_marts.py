"""Live marts that somebody empties by hand: noticed without an audit, said, and put right by a comparison."""

import json
from collections.abc import Iterator

import pytest

from tests.elastic import Search
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.runner.dependencies import DependencyDesk
from vitrina.runner.main import Runner

FILMS = "SELECT id AS film_id, title FROM content.film_work"
EMPTYING = {"truncated": "TRUNCATE analytics.mart", "emptied": "DELETE FROM analytics.mart"}


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    """One that no audit looks after."""
    lab.configure(audit_share=0.0)
    with living(lab, "trigger") as live:
        yield live


def touch(live: Living) -> None:
    """One film."""
    live.captured.run(
        "UPDATE content.film_work SET title = title || '!'"
        " WHERE id = (SELECT id FROM content.film_work ORDER BY id LIMIT 1)"
    )


@pytest.mark.scenario(72)
@pytest.mark.parametrize("how", EMPTYING)
def test_a_follower_that_comes_back_to_an_emptied_mart_compares_it(live: Living, how: str) -> None:
    live.follow(pipeline := live.add(FILMS))
    live.lab.sql(EMPTYING[how])
    touch(live)
    live.follow(pipeline)
    assert f"{how}" in live.why(pipeline)
    live.assert_equal(pipeline)
    touch(live)
    live.follow(pipeline)
    assert live.why(pipeline) == ""


@pytest.mark.scenario(72)
@pytest.mark.parametrize("how", EMPTYING)
def test_a_mart_that_is_emptied_at_rest_is_woken_and_put_right(live: Living, how: str) -> None:
    """Nothing changes at its source, so nobody else would look."""
    live.follow(pipeline := live.add(FILMS))
    live.lab.configure(dependency_seconds=0.0)
    live.lab.sql(EMPTYING[how])
    runner = Runner(live.lab.connections)
    DependencyDesk(live.lab.connections, runner.stopping).look(live.lab.db)
    assert live.lab.value("SELECT due_at IS NOT NULL FROM etl.etl_pipelines")
    runner.run_once()
    assert f"{how}" in live.why(pipeline)
    live.assert_equal(pipeline)
    DependencyDesk(live.lab.connections, runner.stopping).look(live.lab.db)
    assert live.lab.value("SELECT due_at IS NULL FROM etl.etl_pipelines")


@pytest.mark.scenario(72)
def test_a_follower_at_rest_is_told_by_who_looks(live: Living) -> None:
    live.lab.configure(dependency_seconds=0.2)
    live.follow(pipeline := live.add(FILMS))
    with live.lab.runner():
        touch(live)
        wait_for(lambda: live.lab.status(pipeline) == "FOLLOWING")
        live.lab.sql(EMPTYING["truncated"])
        wait_for(lambda: live.lab.value("SELECT count(*) FROM analytics.mart") == 60, 30)
    live.assert_equal(pipeline)


def test_a_mart_that_changes_have_emptied_is_not_compared(live: Living) -> None:
    live.lab.sql(
        "CREATE TABLE ugc.few (id int PRIMARY KEY, body text); INSERT INTO ugc.few VALUES (1, 'one'), (2, 'two')"
    )
    live.captured.install("ugc.few")
    live.follow(pipeline := live.add("SELECT id, body FROM ugc.few", ["id"]), allow_deletes=True)
    live.captured.run("DELETE FROM ugc.few")
    for _ in range(2):
        live.follow(pipeline)
        assert live.why(pipeline) == ""
    live.assert_equal(pipeline)
    live.captured.run("INSERT INTO ugc.few VALUES (3, 'three')")
    live.follow(pipeline)
    live.lab.sql(EMPTYING["emptied"])
    live.captured.run("INSERT INTO ugc.few VALUES (4, 'four')")
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_a_locked_mart_holds_nobody_up(live: Living) -> None:
    live.follow(live.add(FILMS))
    live.lab.configure(dependency_seconds=0.0)
    with connect(live.lab.conninfo, "stranger") as stranger, stranger.transaction():
        stranger.execute("LOCK TABLE analytics.mart")
        DependencyDesk(live.lab.connections, Runner(live.lab.connections).stopping).look(live.lab.db)
    assert live.lab.value("SELECT due_at IS NULL FROM etl.etl_pipelines")


@pytest.mark.scenario(63, 72)
def test_an_emptied_index_is_noticed_by_the_next_look_and_filled_again(search: Search) -> None:
    """By its number of documents: no whole lap of the audit has to pass."""
    search.lab.configure(audit_rest_seconds=0.0)
    with living(search.lab, "trigger") as live:
        pipeline: Pipeline = live.add(FILMS, target_table=f"es:{search.name()}")
        live.follow(pipeline)
        lines = [json.dumps({"delete": {"_index": search.name(), "_id": id_}}) for id_ in search.documents()]
        body, kind = "\n".join([*lines, ""]), {"Content-Type": "application/x-ndjson"}
        assert (
            not search.http.post("/_bulk?refresh=true", content=body, headers=kind).raise_for_status().json()["errors"]
        )
        assert search.documents() == {}
        search.lab.sql("UPDATE etl.etl_mart_audits SET next_at = now(), size = 7")
        for _ in range(2):  # one notices, one compares
            live.follow(pipeline)
        said = [event["fields"]["why"] for event in search.lab.events(pipeline) if event["event"] == "comparing"]
        assert "the mart was emptied by hand" in said
        assert search.documents() == search.wanted(pipeline)
