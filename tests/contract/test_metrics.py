"""Metrics of a running stack; and every query of the dashboard and the alert rules, against what is told there."""

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from tests.contract.server import Api, running, serve
from tests.contract.test_console import sign_in
from tests.elastic import Search
from tests.living import living
from tests.support import Lab, wait_for
from vitrina.control.services import metrics
from vitrina.domain.errors import ConfigError
from vitrina.meta.repos.alerts import AlertRepo
from vitrina.metrics import server
from vitrina.runner.main import Runner

INFRA = Path(__file__).parents[2] / "infra"
PAGE = (INFRA.parent / "docs" / "metrics.md").read_text()
RULES = INFRA / "prometheus" / "vitrina.rules.yml"
DASHBOARD = json.loads((INFRA / "grafana" / "vitrina.json").read_text())
FILMS = {"source_query": "SELECT id AS film_id, title, modified FROM content.film_work", "key": ["film_id"]}
VOTES = "SELECT film_id, count(*) AS votes, sum(rating) AS points FROM ugc.ratings GROUP BY film_id"
CURSOR = {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}
OF_PROMETHEUS = {"job", "instance", "le", "alertname", "severity"}
KNOWN_LABELS = {"pipeline", "target", "status", "version", "le"}
CHECKS = [{"name": "never", "condition": "title IS NULL", "effect": "warn"}]
Series = dict[str, set[str]]  # by name: the labels that its samples have


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name and the values of the labels, in the order of their names."""
    found = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(s.name, tuple(value for _, value in sorted(s.labels.items()))): s.value for s in found}


def series(*texts: str) -> Series:
    """What an exposition has."""
    found: Series = defaultdict(set)
    for text in texts:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name] |= sample.labels.keys()
    return found


@contextmanager
def scraped(lab: Lab) -> Iterator[tuple[Api, Runner]]:
    """API and runner, the runner with metrics on a port of its own."""
    lab.configure(runner_metrics_port=0)
    with serve(lab) as api, running(lab) as runner:
        wait_for(lambda: runner.metrics_port)
        yield api, runner


def of_runner(runner: Runner, **headers: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{runner.metrics_port}/metrics", headers=headers, verify=False, timeout=60)


def of_api(api: Api) -> str:
    """Not one that was kept."""
    api.app.state.metrics._made_at = -metrics.KEPT_SECONDS
    answer = api.clients["viewer"].get("/metrics")
    assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, "text/plain")
    return answer.text


# ── the whole stack ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_running_stack_tells_everything_that_dashboard_and_rules_ask_for(search: Search) -> None:
    lab = search.lab
    with living(lab, "wal") as live, scraped(lab) as (api, runner):
        pipelines = [
            lab.add(name="full", target_table="analytics.full", freshness_limit="1h", checks=CHECKS, **FILMS),
            lab.add(name="cursor", target_table="analytics.cursor", **FILMS, **CURSOR),
            live.add(VOTES, name="live", target_table="analytics.live"),
            search.add("films"),
        ]
        broken = lab.add(name="broken", target_table="analytics.broken", source_query="SELECT 1 AS id FROM content.no")
        for pipeline in (*pipelines, broken):
            lab.request(pipeline)
        ended = ["IDLE", "IDLE", "FOLLOWING", "IDLE", "FAILED"]
        wait_for(lambda: [lab.status(p) for p in (*pipelines, broken)] == ended, 60)
        lab.sql("UPDATE ugc.ratings SET rating = 1 WHERE id = (SELECT id FROM ugc.ratings WHERE rating > 3 LIMIT 1)")
        wait_for(lambda: lab.value("SELECT lag_bytes IS NOT NULL FROM etl.etl_captures"), 30)
        wait_for(lambda: ("vitrina_pipeline_lag_seconds", ("live", "analytics.live")) in samples(of_api(api)), 30)
        told = series(of_api(api), of_runner(runner).raise_for_status().text)
    limited = {"vitrina_capture_slot_safe_bytes"}  # told where the server has max_slot_wal_keep_size
    for where, query in queries():
        for name, labels in selected(query):
            assert name in told or name in limited, f"{where}: nobody tells {name}"
            assert labels - OF_PROMETHEUS <= told.get(name, set()), f"{where}: {name} has no label {labels}"
    assert {label for labels in told.values() for label in labels} <= KNOWN_LABELS
    documented = set(re.findall(r"^\| `(vitrina_\w+)` \|", PAGE, flags=re.MULTILINE)) | {"vitrina_build_info"}
    names = {re.sub(r"_(bucket|count|sum)$", "", name) for name in told if name.startswith("vitrina_")}
    assert documented == names | limited


def test_gauges_say_how_things_stand(lab: Lab) -> None:
    pipeline = lab.add(name="films", freshness_limit="1h", **FILMS)
    lab.run(pipeline)
    broken = lab.add(name="broken", target_table="analytics.broken", source_query="SELECT 1 AS id FROM content.no")
    lab.run(broken)
    lab.sql("UPDATE etl.etl_runs SET tried_at = tried_at - interval '2 hours' WHERE pipeline_id = %s", pipeline.id)
    lab.sql("UPDATE etl.etl_runners SET seen_at = now() - interval '10 minutes'")
    alive = "gen_random_uuid(), 'r', '1', 4, now() + interval '1 hour'"  # however long this takes
    lab.sql(f"INSERT INTO etl.etl_runners (id, name, version, slots, seen_at) VALUES ({alive})")
    with serve(lab) as api:
        found = samples(of_api(api))
    mart = ("films", "analytics.mart")
    assert found["vitrina_pipeline_status", ("films", "IDLE", "analytics.mart")] == 1
    assert found["vitrina_pipeline_status", ("broken", "FAILED", "analytics.broken")] == 1
    assert (found["vitrina_pipelines", ("FAILED",)], found["vitrina_pipelines", ("PAUSED",)]) == (1, 0)
    assert 7200 <= found["vitrina_pipeline_age_seconds", mart] < 7300
    assert (found["vitrina_pipeline_freshness_limit_seconds", mart], found["vitrina_pipeline_stale", mart]) == (3600, 1)
    for name in ("stale", "age_seconds"):  # it was never filled
        assert (f"vitrina_pipeline_{name}", ("broken", "analytics.broken")) not in found
    assert ("vitrina_pipeline_backlog_changes", mart) not in found
    assert found["vitrina_alerts", ("pending",)] == 1
    assert found["vitrina_runners", ("alive",)] == 1
    ended = lab.last_run(pipeline)["finished_at"].timestamp()
    assert found["vitrina_pipeline_last_success_timestamp_seconds", mart] == pytest.approx(ended, abs=0.001)


def test_counters_count_what_the_history_says(lab: Lab) -> None:
    with scraped(lab) as (_, runner):
        pipeline = lab.add(name="counted", batch_size=25, **FILMS)
        for _ in range(2):
            lab.request(pipeline)
            wait_for(lambda: lab.status(pipeline) == "IDLE")
        lab.sql("ALTER TABLE content.film_work RENAME TO film_gone")
        lab.request(pipeline)
        wait_for(lambda: lab.status(pipeline) == "FAILED")
        wait_for(lambda: samples(of_runner(runner).text)["vitrina_runs_total", ("counted", "FAILED", "analytics.mart")])
        found = samples(of_runner(runner).text)
    mart = ("counted", "analytics.mart")
    assert found["vitrina_runs_total", ("counted", "SUCCESS", "analytics.mart")] == 2
    columns = ("read", "written", "deleted", "unchanged")
    sums = ", ".join(f"sum(rows_{name})" for name in columns)
    (totals,) = lab.sql(f"SELECT {sums} FROM etl.etl_runs")
    assert tuple(found[f"vitrina_rows_{name}_total", mart] for name in columns) == totals
    assert found["vitrina_batch_duration_seconds_count", mart] == lab.value("SELECT sum(batches) FROM etl.etl_runs")
    assert found["vitrina_run_duration_seconds_count", mart] == 3
    assert (found["vitrina_retries_total", mart], found["vitrina_leases_lost_total", mart]) == (0, 0)
    assert found["vitrina_runner_slots", ()] == 4


def test_what_is_told_is_kept_for_a_moment_whoever_asks(lab: Lab) -> None:
    lab.add(**FILMS)
    with serve(lab) as api:
        before = of_api(api)
        lab.sql("DELETE FROM etl.etl_pipelines")
        assert api.clients["admin"].get("/metrics").text == before
        assert of_api(api) != before


def test_what_is_wrong_shows_in_status_and_console(lab: Lab) -> None:
    lab.add(name="films", freshness_limit="1h", **FILMS)
    with serve(lab) as api, sign_in(api, "viewer") as browser:
        assert api.get("/pipelines/films/status")["incidents"] == []
        assert "stale since" not in browser.get("/").text
        lab.sql("UPDATE etl.etl_pipelines SET created_at = now() - interval '2 hours'")
        AlertRepo(lab.db).check_freshness(60, 12, 300)
        (incident,) = api.get("/pipelines/films/status")["incidents"]
        assert incident["kind"] == "stale"
        assert all("stale since" in browser.get(page).text for page in ("/", "/pipelines/films"))


# ── who may look ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_token_for_metrics_opens_them_and_nothing_else(lab: Lab) -> None:
    lab.configure(metrics_token=SecretStr("planted"))
    with scraped(lab) as (api, runner):
        good, bad = {"Authorization": "Bearer planted"}, {"Authorization": "Bearer wrong"}
        assert [api.clients["nobody"].get("/metrics", headers=h).status_code for h in (good, bad, {})] == [
            200,
            401,
            401,
        ]
        assert api.clients["nobody"].get("/api/v1/pipelines", headers=good).status_code == 401
        assert [of_runner(runner, **h).status_code for h in (good, bad, {})] == [200, 401, 401]
        assert httpx.get(f"http://127.0.0.1:{runner.metrics_port}/other", timeout=60).status_code == 404


def test_a_runner_shows_its_metrics_to_strangers_only_with_a_token(lab: Lab) -> None:
    lab.configure(runner_metrics_port=0, runner_metrics_host="0.0.0.0")
    with pytest.raises(ConfigError, match="VITRINA_METRICS_TOKEN"), server.serving(lab.connections.settings):
        pass


def test_a_port_that_is_taken_is_said(lab: Lab) -> None:
    lab.configure(runner_metrics_port=0)
    with server.serving(lab.connections.settings) as port:
        lab.configure(runner_metrics_port=port)
        with pytest.raises(ConfigError, match=f"port {port}"), server.serving(lab.connections.settings):
            pass


# ── dashboard and rules ──────────────────────────────────────────────────────────────────────────────────────


def queries() -> Iterator[tuple[str, str]]:
    """Every query, and where it is. Grafana's variables stand for something that is there."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield f"rule {rule['alert']}", rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"panel {panel['title']}", target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            yield f"variable {variable['name']}", f"sum by ({label}) ({name})"


def selected(query: str) -> list[tuple[str, set[str]]]:
    """The series that a query selects, each with the labels that it is matched, grouped or joined by."""
    return list(_selected(promql_parser.parse(query), set()))


def _selected(node: Any, labels: set[str]) -> Iterator[tuple[str, set[str]]]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name or "", labels | {matcher.name for matcher in node.matchers.matchers}
    elif isinstance(node, promql_parser.MatrixSelector):
        yield from _selected(node.vector_selector, labels)
    elif isinstance(node, promql_parser.AggregateExpr):
        yield from _selected(node.expr, labels | _labels(node.modifier))
    elif isinstance(node, promql_parser.BinaryExpr):
        joined = labels | (_labels(node.modifier.matching) if node.modifier else set())
        yield from _selected(node.lhs, joined)
        yield from _selected(node.rhs, joined)
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            yield from _selected(argument, labels)
    elif isinstance(node, promql_parser.ParenExpr):
        yield from _selected(node.expr, labels)
    else:
        assert isinstance(node, promql_parser.NumberLiteral), node


def _labels(modifier: Any) -> set[str]:
    return set(modifier.labels) if modifier else set()


def test_every_rule_says_what_and_what_to_do_in_labels_that_it_has() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("warning", "critical")
        said = rule["annotations"]
        assert said.keys() == {"summary", "description"}
        kept = {label for _, labels in selected(rule["expr"]) for label in labels}
        assert set(re.findall(r"\$labels\.(\w+)", said["summary"] + said["description"])) <= kept


def test_every_panel_is_drawn_from_a_query_and_named_by_labels_that_it_has() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            kept = {label for _, labels in selected(target["expr"]) for label in labels}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_promtool_takes_the_rules_and_the_scrape_configuration() -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not here (apt install prometheus)")
    for check in (["rules", str(RULES)], ["config", "--syntax-only", str(INFRA / "prometheus" / "prometheus.yml")]):
        done = subprocess.run([tool, "check", *check], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
