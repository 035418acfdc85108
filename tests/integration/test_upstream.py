"""Marts over marts: what is read is what the server resolves; no circles; who comes after others is due once."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import UndefinedTable

from tests.support import Lab, wait_for
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Invalid
from vitrina.control.services.pipelines import PipelineService
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.wording import Worded
from vitrina.meta.repos.upstream import UpstreamRepo, Writer, circle, naming_writers
from vitrina.runner.main import Runner
from vitrina.runner.manager import PipelineManager

SCHEMAS = ["content", "ugc", "analytics"]
RATED = "SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id"


@pytest.fixture
def over(lab: Lab) -> Lab:
    """A lab whose pipelines may read marts."""
    lab.configure(allowed_source_schemas=SCHEMAS, dependency_seconds=0.2)
    return lab


@pytest.fixture
def service(over: Lab) -> Iterator[PipelineService]:
    plane = ControlPlane(make_conninfo(over.conninfo, user="vitrina_api"), over.connections)
    with plane.pool:
        yield PipelineService(plane, "tester")


def mart(name: str, select: str = RATED, **config: Any) -> dict[str, Any]:
    values = {"name": name, "source_query": select, "target_table": f"analytics.{name}", "key": ["film_id"]}
    return values | config


def above(name: str, of: str = "film_id, votes") -> str:
    return f"SELECT {of} FROM analytics.{name}"


def pipeline(name: str, select: str = RATED, **config: Any) -> Pipeline:
    return Pipeline.parse(mart(name, select, **config))


def runs(lab: Lab) -> dict[str, int]:
    counted = "SELECT p.name, count(r.id) FROM etl.etl_pipelines p LEFT JOIN etl.etl_runs r ON r.pipeline_id = p.id"
    rows = lab.sql(f"{counted} GROUP BY 1")
    return dict(rows)


def chosen(findings: list[Finding], where: str = "after") -> list[Worded]:
    return [finding.code for finding in findings if finding.where == where]


# ── what is read ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mart_of_a_mart_is_equal_to_its_query(over: Lab) -> None:
    first, second = over.add(**mart("rated")), over.add(**mart("popular", above("rated") + " WHERE votes > 3"))
    over.run(first)
    assert over.run(second)["status"] == "SUCCESS"
    over.assert_equal(second)
    assert over.sql("SELECT relations FROM etl.etl_reads WHERE pipeline_id = %s", second.id) == [(["analytics.rated"],)]


def test_a_schema_of_marts_is_read_only_if_the_settings_say_so(lab: Lab) -> None:
    lab.run(lab.add(**mart("rated")))
    run = lab.run(lab.add(**mart("popular", above("rated"))))
    assert (run["status"], "VITRINA_ALLOWED_SOURCE_SCHEMAS" in run["said"]) == ("FAILED", True)


@pytest.mark.parametrize(
    "way",
    [
        "CREATE VIEW content.v AS SELECT * FROM analytics.rated",
        "CREATE VIEW content.w AS SELECT * FROM analytics.rated; CREATE VIEW content.v AS SELECT * FROM content.w",
        "CREATE MATERIALIZED VIEW content.v AS SELECT * FROM analytics.rated",
        "CREATE VIEW content.w AS SELECT * FROM analytics.rated; CREATE MATERIALIZED VIEW content.v AS TABLE content.w",
    ],
)
def test_what_is_behind_views_is_read_too(over: Lab, service: PipelineService, way: str) -> None:
    over.run(over.add(**mart("rated")))
    over.sql(way + "; GRANT SELECT ON ALL TABLES IN SCHEMA content TO vitrina_reader")
    _, findings = service.create(pipeline("popular", "SELECT * FROM content.v"))
    over.run(Pipeline.parse(service.get("popular").config))
    assert [f.message for f in findings if f.code is Code.READS_MARTS] == [
        "reads marts of other pipelines: analytics.rated (rated)"
    ]
    with pytest.raises(Invalid, match=r"analytics\.rated reads .*analytics\.popular reads analytics\.rated"):
        service.patch("rated", {"source_query": above("popular")}, None)


def test_a_partition_and_its_parent_are_one_mart(over: Lab, service: PipelineService) -> None:
    over.sql(
        "CREATE TABLE analytics.parts (film_id uuid PRIMARY KEY, votes bigint) PARTITION BY HASH (film_id);"
        "CREATE TABLE analytics.parts_0 PARTITION OF analytics.parts FOR VALUES WITH (MODULUS 1, REMAINDER 0);"
        "GRANT SELECT ON ALL TABLES IN SCHEMA analytics TO vitrina_reader"
    )
    with pytest.raises(Invalid, match=r"analytics\.parts reads analytics\.parts"):
        service.create(pipeline("parts", above("parts_0")))
    with pytest.raises(Invalid, match=r"analytics\.parts_0 reads analytics\.parts_0"):
        service.create(pipeline("parts_0", above("parts")))


def test_a_table_of_the_same_name_elsewhere_is_no_mart(over: Lab, service: PipelineService) -> None:
    over.sql("CREATE TABLE content.rated (film_id uuid PRIMARY KEY, votes bigint)")
    over.sql("GRANT SELECT ON content.rated TO vitrina_reader")
    select = "WITH rated AS (SELECT * FROM content.rated) SELECT film_id, votes FROM rated"
    assert service.create(pipeline("rated", select))[0].name == "rated"


# ── circles ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pipeline_over_its_own_mart_is_refused(over: Lab, service: PipelineService) -> None:
    service.create(pipeline("rated"))
    over.run(Pipeline.parse(service.get("rated").config))
    with pytest.raises(Invalid, match=r"made of itself: analytics\.rated reads analytics\.rated"):
        service.patch("rated", {"source_query": above("rated")}, None)


def test_an_edit_that_closes_a_circle_is_refused_with_the_way(over: Lab, service: PipelineService) -> None:
    for name, select in [("a", RATED), ("b", above("a")), ("c", above("b"))]:
        stored, _ = service.create(pipeline(name, select))
        over.run(Pipeline.parse(stored.config))
    with pytest.raises(Invalid, match=r"analytics\.a reads analytics\.c reads analytics\.b reads analytics\.a"):
        service.patch("a", {"source_query": above("c")}, None)


def table(lab: Lab, name: str) -> None:
    """A mart that somebody made before any pipeline did."""
    lab.sql(f"CREATE TABLE analytics.{name} (film_id uuid PRIMARY KEY, votes bigint)")
    lab.sql(f"ALTER TABLE analytics.{name} OWNER TO vitrina_runner; GRANT SELECT ON analytics.{name} TO vitrina_reader")


def test_a_new_target_can_close_a_circle(over: Lab, service: PipelineService) -> None:
    table(over, "later")
    service.create(pipeline("a", above("later")))
    over.run(Pipeline.parse(service.get("a").config))
    with pytest.raises(Invalid, match=r"analytics\.later reads analytics\.a reads analytics\.later"):
        service.create(pipeline("later", above("a")))
    service.create(pipeline("b", above("a")))
    with pytest.raises(Invalid, match="made of itself"):
        service.patch("b", {"target_table": "analytics.later"}, None)


def test_one_written_in_sql_gets_the_same_verdict_before_it_writes_anything(
    over: Lab, service: PipelineService
) -> None:
    table(over, "b")
    service.create(pipeline("a", above("b")))
    over.run(Pipeline.parse(service.get("a").config))
    second = over.add(**mart("b", above("a")))
    run = over.run(second)
    assert run["status"] == "FAILED"
    assert "analytics.b reads analytics.a reads analytics.b" in run["error"]
    assert run["rows_read"] == 0
    assert over.run(Pipeline.parse(service.get("a").config))["status"] == "SUCCESS", "who came first goes on"


def test_a_view_that_closes_a_circle_is_noticed_by_the_next_run(over: Lab) -> None:
    over.sql("CREATE VIEW content.v AS SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id")
    over.sql("GRANT SELECT ON content.v TO vitrina_reader")
    first, second = over.add(**mart("a", "SELECT * FROM content.v")), over.add(**mart("b", above("a")))
    over.run(first)
    over.run(second)
    over.sql("CREATE OR REPLACE VIEW content.v AS SELECT film_id, votes FROM analytics.b")
    run = over.run(first)
    assert (run["status"], "analytics.a reads analytics.b reads analytics.a" in run["error"]) == ("FAILED", True)


def test_of_two_that_would_read_each_other_the_second_to_be_kept_is_refused(over: Lab) -> None:
    table(over, "a")
    table(over, "b")
    first, second = over.add(**mart("a", above("b"))), over.add(**mart("b", above("a")))
    repo = UpstreamRepo(over.db)
    repo.keep(first.id, 1, "analytics.a", ["analytics.b"])
    with pytest.raises(ConfigError, match="made of itself"):
        repo.keep(second.id, 1, "analytics.b", ["analytics.a"])
    assert over.sql("SELECT pipeline_id FROM etl.etl_reads") == [(first.id,)]


def test_the_way_is_the_shortest_and_many_ways_cost_no_more() -> None:
    rungs = [writer(f"{n}{side}", [f"{n + 1}a", f"{n + 1}b"]) for n in range(40) for side in "ab"]
    assert circle("x", ["0a", "0b"], rungs) == ()
    assert circle("40b", ["0a", "20a"], rungs)[:2] == ("40b", "20a")
    assert len(circle("40b", ["0a", "20a"], rungs)) == 22


def writer(name: str, reads: list[str]) -> Writer:
    return Writer(id=Pipeline(name=name).id, name=name, mart=name, mode="full", reads=reads)


# ── what is not there yet ────────────────────────────────────────────────────────────────────────────────────


def test_who_makes_a_missing_mart_is_named_in_whatever_language_the_server_speaks() -> None:
    missing = replace(writer("analytics.rated", []), name="rated", is_there=False)
    there = writer("analytics.films", [])
    with pytest.raises(ConfigError) as refused, naming_writers(lambda _: [there, missing], [there.mart, missing.mart]):
        raise ConfigError("la relation « analytics.rated » n'existe pas") from UndefinedTable()
    assert refused.value.remedy == "pipeline rated makes it: vitrina run rated"


def test_of_a_mart_that_has_not_been_made_it_is_said_who_makes_it(over: Lab, service: PipelineService) -> None:
    service.create(pipeline("rated"))
    with pytest.raises(Invalid) as refused:
        service.create(pipeline("popular", above("rated")))
    assert refused.value.remedy == "pipeline rated makes it: vitrina run rated"
    run = over.run(over.add(**mart("popular", above("rated"))))
    assert (run["status"], run["remedy"]) == ("FAILED", refused.value.remedy)
    over.run(Pipeline.parse(service.get("rated").config))
    assert over.run(Pipeline.parse(service.get("popular").config))["status"] == "SUCCESS"


# ── after: upstream ──────────────────────────────────────────────────────────────────────────────────────────


def chain(lab: Lab, service: PipelineService, *edges: tuple[str, list[str]], **config: Any) -> dict[str, Pipeline]:
    """Marts, each over others and due after them; made, and all at rest."""
    made = {}
    for name, reads in edges:
        select = RATED if not reads else " UNION ".join(above(read) for read in reads)
        after = {"after": "upstream"} if reads else {}
        stored, _ = service.create(pipeline(name, select, **(after | config)))
        made[name] = Pipeline.parse(stored.config)
        lab.run(made[name])
    settle(lab)
    return made


def settle(lab: Lab) -> None:
    """Run whatever is due, and whatever becomes so."""
    while Runner(lab.connections).run_once():
        pass


def test_a_chain_runs_link_by_link_and_ends_equal(over: Lab, service: PipelineService) -> None:
    made = chain(over, service, ("a", []), ("b", ["a"]), ("c", ["b"]), ("d", ["c"]))
    before = runs(over)
    over.sql("DELETE FROM ugc.ratings WHERE film_id IN (SELECT film_id FROM ugc.ratings ORDER BY 1 LIMIT 5)")
    over.run(made["a"])
    settle(over)
    assert {name: count - before[name] for name, count in runs(over).items()} == dict.fromkeys("abcd", 1)
    for one in made.values():
        over.assert_equal(one)
    assert over.sql("SELECT count(*) FROM analytics.d") == over.sql("SELECT count(DISTINCT film_id) FROM ugc.ratings")


def test_where_ways_meet_again_both_are_waited_for(over: Lab, service: PipelineService) -> None:
    made = chain(over, service, ("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["a", "b", "c"]), ("e", ["d"]))
    before = runs(over)
    over.sql("DELETE FROM ugc.ratings WHERE rating > 5")
    over.run(made["a"])
    settle(over)
    assert {name: count - before[name] for name, count in runs(over).items()} == dict.fromkeys("abcde", 1)
    for one in made.values():
        over.assert_equal(one)


def test_one_that_is_under_way_is_waited_for_and_one_that_has_failed_is_not(
    over: Lab, service: PipelineService
) -> None:
    made = chain(over, service, ("a", []), ("b", []), ("c", ["a", "b"]))
    before = runs(over)["c"]
    over.request(made["b"])
    over.run(made["a"])
    PipelineManager(over.db).tick()
    assert due(over, "c") is None, "b is asked for"
    over.sql("UPDATE etl.etl_pipelines SET status = 'RUNNING' WHERE name = 'b'")
    PipelineManager(over.db).tick()
    assert due(over, "c") is None, "b is under way"
    over.sql("UPDATE etl.etl_pipelines SET status = 'FAILED' WHERE name = 'b'")
    settle(over)
    assert runs(over)["c"] == before + 1


def due(lab: Lab, name: str) -> Any:
    return lab.value("SELECT due_at FROM etl.etl_pipelines WHERE name = %s", name)


def test_one_that_ended_while_it_ran_makes_it_due_again(over: Lab, service: PipelineService) -> None:
    chain(over, service, ("a", []), ("b", ["a"]))
    over.sql(
        "UPDATE etl.etl_runs SET tried_at = now() - interval '1 hour' WHERE pipeline_id ="
        " (SELECT id FROM etl.etl_pipelines WHERE name = 'b')"
    )
    PipelineManager(over.db).tick()
    assert due(over, "b") is not None
    before = runs(over)["b"]
    settle(over)
    assert (runs(over)["b"], due(over, "b")) == (before + 1, None)


def test_a_schedule_goes_on_beside_it(over: Lab, service: PipelineService) -> None:
    made = chain(over, service, ("a", []), ("b", ["a"]))
    service.patch("b", {"schedule_interval": "0 0 1 1 *"}, None)
    PipelineManager(over.db).tick()
    planned, before = due(over, "b"), runs(over)["b"]
    over.run(made["a"])
    settle(over)
    PipelineManager(over.db).tick()
    assert (runs(over)["b"], due(over, "b")) == (before + 1, planned)


def test_a_disabled_or_paused_one_is_not_due(over: Lab, service: PipelineService) -> None:
    made = chain(over, service, ("a", []), ("b", ["a"]), ("c", ["a"]))
    service.set_enabled("b", False)
    service.pause("c")
    before = runs(over)
    over.run(made["a"])
    settle(over)
    assert runs(over) == before | {"a": before["a"] + 1}


def test_one_written_in_sql_is_due_once_a_runner_has_seen_what_it_reads(over: Lab) -> None:
    first, second = over.add(**mart("a")), over.add(**mart("b", above("a"), after="upstream"))
    settle(over)
    assert runs(over) == {"a": 0, "b": 0}, "its mart is not there yet"
    with over.runner():
        over.request(first)
        wait_for(lambda: over.status(second) == "IDLE" and runs(over)["b"] > 0)
        wait_for(lambda: over.last_run(second)["status"] == "SUCCESS")
    over.assert_equal(second)
    over.sql("UPDATE etl.etl_pipelines SET source_query = %s WHERE name = 'b'", RATED)
    Runner(over.connections).run_once()
    assert over.sql(
        "SELECT relations FROM etl.etl_reads r JOIN etl.etl_pipelines p ON p.id = pipeline_id WHERE name = 'b'"
    ) == [(["ugc.ratings"],)]


def test_what_after_means_for_a_pipeline_is_said_before(over: Lab, service: PipelineService) -> None:
    made = chain(over, service, ("a", []))
    assert chosen(service.findings(pipeline("b", above("a"), after="upstream"))) == []
    assert chosen(service.findings(pipeline("b", after="upstream"))) == [Code.AFTER_NOTHING]
    assert chosen(service.findings(pipeline("b", above("a"), mode="live", after="upstream"))) == [Code.AFTER_NOT_USED]
    over.sql("UPDATE etl.etl_pipelines SET mode = 'live' WHERE id = %s", made["a"].id)
    assert chosen(service.findings(pipeline("b", above("a"), after="upstream"))) == [Code.AFTER_LIVE]


@pytest.mark.parametrize("after", [None, "upstream"])
def test_a_configuration_says_after_only_if_it_is_given(over: Lab, after: str | None) -> None:
    made = over.add(**mart("a", after=after))
    [(config,)] = over.sql("SELECT config FROM etl.etl_config_versions WHERE pipeline_id = %s", made.id)
    assert ("after" in config, Pipeline.parse(config).after) == (after is not None, after)


def test_a_live_upstream_that_is_under_way_holds_nobody_up(over: Lab, service: PipelineService) -> None:
    made = chain(over, service, ("a", []), ("b", []), ("c", ["a", "b"]))
    over.sql("UPDATE etl.etl_pipelines SET mode = 'live', status = 'RUNNING' WHERE name = 'b'")
    before = runs(over)["c"]
    over.run(made["a"])
    settle(over)
    assert runs(over)["c"] == before + 1
