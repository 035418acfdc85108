"""Elasticsearch as a user of the command line meets it: the demo, the stack, and pipelines as files."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from pydantic import SecretStr

from tests.acceptance.client import FILMS, Folder, vitrina
from tests.acceptance.processes import Cli, free_port
from tests.contract.server import Api, running, serve
from tests.support import Lab, delete_indexes
from vitrina.files import demo_pipelines, dump_pipeline

SMALL = ("demo", "--films", "30", "--ratings", "200")


def lines_of(said: str, *beginnings: str) -> list[str]:
    """Those that begin so, in one of these ways."""
    return [line for line in said.splitlines() if line.startswith(beginnings)]


# ── the demo ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def named(stack: Cli, demo_indexes: str) -> Cli:
    """A stack whose Elasticsearch is one that runs already."""
    stack.environment["ELASTICSEARCH_URL"] = demo_indexes
    return stack


@pytest.mark.long
def test_the_demo_fills_two_indexes_searches_one_and_rewrites_nothing(named: Cli, elastic: str) -> None:
    first = named(*SMALL)
    assert "Elasticsearch 8.19.0, as configured" in first or "Elasticsearch 9." in first
    shown = [line.split() for line in lines_of(first, "film_dim_search  ", "film_rating_agg_search  ") if "es:" in line]
    assert [(row[1], row[2], row[3], row[-1]) for row in shown] == [
        ("es:film_dim", "30", "30", "yes"),
        ("es:film_rating_agg", "26", "26", "yes"),
    ]
    assert 'searched for "star wars": 11 films' in first
    assert "Star Wars: Episode IV - A New Hope" in first.split("star wars")[1]
    assert "nothing was rewritten" not in first
    assert httpx.get(f"{elastic}/film_dim/_count", trust_env=False, timeout=60).json()["count"] == 30

    second = named(*SMALL)
    assert "nothing had changed, and nothing was rewritten" in second
    assert 'searched for "star wars": 11 films' in second


@pytest.mark.parametrize("missing", ["fetch", "server"])
def test_without_elasticsearch_one_line_says_what_is_missing(stack: Cli, home: Path, missing: str) -> None:
    if missing == "fetch":
        _break_maven(stack, home)
    else:
        stack.environment["ELASTICSEARCH_URL"] = "http://somebody:planted-secret@127.0.0.1:1"
    said = stack(*SMALL)
    (line,) = lines_of(said, "without Elasticsearch: ")
    assert "ELASTICSEARCH_URL" in line
    assert ("Maven could not fetch" if missing == "fetch" else "127.0.0.1:1 does not answer") in line
    assert "planted-secret" not in said
    assert "film_dim_full" in said
    assert "es:" not in said


def _break_maven(cli: Cli, folder: Path) -> None:
    """As on a machine without a network, on which nobody has fetched it before."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "mvn").write_text("#!/bin/sh\necho '[ERROR] Unknown host'\nexit 1\n")
    (programs / "mvn").chmod(0o755)
    cli.environment["PATH"] = f"{programs}:{cli.environment['PATH']}"
    cli.environment["VITRINA_ELASTICSEARCH_CACHE"] = str(folder / "cache")


# ── the stack ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
def test_up_with_search_to_down(stack: Cli, home: Path, elastic: str) -> None:
    """`elastic` only tells whether this machine can have one."""
    del elastic
    port = free_port()
    stack("up", "--runners", "0", "--port", port)
    assert "the stack is up already, without Elasticsearch" in stack("up", "--search", expect=1)
    stack("down")

    said = stack("up", "--search", "--port", port)
    assert "for the indexes *" in said
    url = said.split("Elasticsearch: ")[1].split(",")[0]
    first = stack(*SMALL)
    assert "Elasticsearch 8.19.0, embedded" in first
    assert "stopped" not in first
    assert "SUCCESS" in stack("run", "film_dim_search", "--wait")
    assert httpx.get(f"{url}/film_dim/_count", trust_env=False, timeout=60).json()["count"] == 30
    checks = {check["about"]: check for check in json.loads(stack("doctor", "-o", "json"))}
    server = {"version": "8.19.0", "url": url, "health": "green", "tested": "Elasticsearch 8 or 9"}
    assert checks["Elasticsearch"] | {"remedy": ""} == {
        "level": "ok",
        "about": "Elasticsearch",
        "code": "search",
        "data": server,
        "message": f"version 8.19.0 at {url}, health green",
        "remedy": "",
    }
    assert checks["indexes"]["message"] == "allowed: *"
    assert "elasticsearch/logs/vitrina.log" in stack("logs", "-n", "1")

    stack("down")
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False, timeout=60)
    checks = {check["about"]: check for check in json.loads(stack("doctor", "-o", "json"))}
    assert (checks["Elasticsearch"]["level"], "not running" in checks["Elasticsearch"]["message"]) == ("warn", True)
    stack("down", "--purge")
    assert not (home / "home" / "elasticsearch").exists()


# ── pipelines as files ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def prefix() -> str:
    """Of the names of this module's indexes."""
    return f"t_{uuid.uuid4().hex[:12]}_"


@pytest.fixture(scope="module")
def shared(elastic: str, prefix: str) -> Iterator[Api]:
    """An API and a runner that may write to some indexes."""
    settings = {"elasticsearch_url": SecretStr(elastic), "allowed_es_indexes": [f"{prefix}*"]}
    with Lab.open("vitrina_template", **settings) as lab, serve(lab) as api, running(lab):
        yield api
    delete_indexes(elastic, prefix)


def test_an_index_by_yaml_alone_from_plan_to_rebuild(
    api: Api, folder: Folder, tmp_path: Path, elastic: str, prefix: str
) -> None:
    target = f"{prefix}films"
    own: dict[str, Any] = {"target_table": f"es:{target}", "settings": {"number_of_shards": 2}}
    folder.write(**own)
    planned = vitrina("plan", folder.path).out
    assert f"ddl create index {target} with film_id keyword, title text, rating double" in planned
    assert f"then a full load: the next run creates es:{target} and loads it" in planned
    vitrina("apply", folder.path, "--yes")
    assert "SUCCESS" in vitrina("run", "films", "--wait").out
    assert f"index {target} has film_id keyword" in vitrina("validate", "films").out

    vitrina("export", "-o", tmp_path / "exported")
    assert yaml.safe_load((tmp_path / "exported" / "films.yaml").read_text())["settings"] == own["settings"]
    assert "nothing to do: 1 unchanged" in vitrina("plan", tmp_path / "exported", "--prune").out

    folder.write(**own, mapping={"title": {"type": "keyword"}})
    changed = vitrina("plan", folder.path).out
    assert "    mapping: +title: {type: keyword}\n" in changed
    assert f"ddl rebuild index {target} beside the one that is served" in changed
    assert f"a new index, which then takes the place of es:{target}" in changed
    vitrina("apply", folder.path, "--yes")
    assert "SUCCESS" in vitrina("run", "films", "--wait").out
    (index,) = httpx.get(f"{elastic}/{target}", trust_env=False, timeout=60).json().values()
    assert index["mappings"]["properties"]["title"] == {"type": "keyword"}
    assert index["settings"]["index"]["number_of_shards"] == "2"


def test_other_columns_are_drift_that_validation_foretells(api: Api, folder: Folder, prefix: str) -> None:
    target = {"target_table": f"es:{prefix}drift"}
    folder.write("drift", **target)
    vitrina("apply", folder.path, "--yes")
    assert "SUCCESS" in vitrina("run", "drift", "--wait").out
    folder.write("drift", **target, source_query=FILMS.replace("f.rating", "f.rating, f.type"))
    assert "drift: the query changed type" in vitrina("plan", folder.path).out
    vitrina("apply", folder.path, "--yes")
    assert "run with --rebuild, or set on_drift: add" in vitrina("run", "drift", "--wait", expect=1).err
    assert "SUCCESS" in vitrina("run", "drift", "--rebuild", "--wait").out
    assert "drift" not in vitrina("validate", folder.path).out.replace("drift: valid", "").replace("_drift", "")


def test_the_demos_indexes_validate_and_round_trip(api: Api, folder: Folder, prefix: str) -> None:
    for pipeline in demo_pipelines("indexes"):
        config = pipeline.model_dump(mode="json")
        renamed = config | {"target_table": str(pipeline.target_table).replace("es:", f"es:{prefix}")}
        (folder.path / f"{pipeline.name}.yaml").write_text(dump_pipeline(renamed))
    assert vitrina("validate", folder.path).out.count(": valid") == 2
    vitrina("apply", folder.path, "--yes")
    assert "nothing to do: 2 unchanged" in vitrina("plan", folder.path).out
