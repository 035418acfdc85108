"""Secrets planted in every setting that may hold one, and sought in all that real processes say and store."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from tests.acceptance.client import vitrina
from tests.acceptance.processes import CLEAN, free_port
from tests.contract import test_access, test_console
from tests.contract.server import CHANGED_FILMS, FILMS, serve
from tests.patience import patient
from tests.support import Lab, wait_for
from vitrina.capture.stream import Stream
from vitrina.control.plane import ControlPlane
from vitrina.domain.errors import VitrinaError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import Settings

MARK = "planted"
SOURCES = {
    "good": "{database}",
    "down": "postgresql://me:{secret}@127.0.0.1:1/db",
    "unquoted": "postgresql://me:x@{secret}@127.0.0.1:1/db",
    "unreadable": "postgresql://me:{secret}@[::1/db",
}
# Where alerts go to: an address may be the secret itself.
ALERTS = {
    "hook": {"url": "http://127.0.0.1:9/{secret}", "secret": "{secret}"},
    "chat": {"url": "http://127.0.0.1:9/services/{secret}?key={secret}", "format": "slack"},
    "pager": {"url": "http://127.0.0.1:9", "format": "pagerduty", "secret": "{secret}"},
    "mail": {"url": "smtp://me:{secret}@localhost:9", "to": '["ops@example.org"]', "sender": "vitrina@example.org"},
}
ROLES = {"runner_url": "vitrina_runner", "reader_url": "vitrina_reader", "api_role_url": "vitrina_api"}
# Commands that say how to get in, to whoever has the database's own password, are not asked.
COMMANDS = [
    "doctor", "doctor -o json", "list", "get films", "export", "runs films", "status films", "state films",
    "lineage", "validate down", "validate unreadable", "preview down", "token list", "capture status", "run far",
    "alert list", "alert test chat", "alert deliveries", "source list", "source show down", "source test unquoted",
]  # fmt: skip


def secret_settings() -> dict[str, bool]:
    """The settings that hold secrets, and whether they hold several by name."""
    fields = {name: str(field.annotation) for name, field in Settings.model_fields.items()}
    return {name: "dict" in type_ for name, type_ in fields.items() if SecretStr.__name__ in type_}


@dataclass
class Planted:
    """A lab, an environment in which every secret setting holds a secret, and what has been said so far."""

    lab: Lab
    folder: Path
    token: str
    port: str
    secrets: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Of the API."""
        return f"http://127.0.0.1:{self.port}"

    def __post_init__(self) -> None:
        self.environment = self._environment()

    def _environment(self) -> dict[str, str]:
        """With a secret of its own in every place."""
        planted = {"VITRINA_TOKEN": self.token, "VITRINA_URL": self.url, "VITRINA_HOME": str(self.folder / "home")}
        for name, is_several in secret_settings().items():
            if name == "token":
                continue
            prefix = "" if name == "elasticsearch_url" else "VITRINA_"
            for key, value in self._values(name, is_several).items():
                planted[prefix + name.upper() + key] = value
        for name, values in ALERTS.items():
            for key, value in values.items():
                said = self._fill(f"alerts {name} {key}", value) if "{secret}" in value else value
                planted[f"VITRINA_ALERTS__{name.upper()}__{key.upper()}"] = said
        allowed = {"VITRINA_ALLOWED_ES_INDEXES": "far", "VITRINA_ALLOWED_SOURCE_SCHEMAS": "content,ugc"}
        return planted | allowed | {"VITRINA_LOG_FORMAT": "json"}

    def _values(self, name: str, is_several: bool) -> dict[str, str]:
        if is_several:
            return {f"__{key.upper()}": self._fill(f"{name} {key}", value) for key, value in SOURCES.items()}
        if name.endswith(("database_url", "direct_url", "capture_url")) or name in ROLES:
            return {"": self._database(name)}
        return {"": self._fill(name, "http://me:{secret}@127.0.0.1:9" if name.endswith("_url") else "{secret}")}

    def _fill(self, name: str, text: str) -> str:
        if text == SOURCES["good"]:
            return self._database(name)
        self.secrets[name] = f"{MARK}-{len(self.secrets)}-{name.replace(' ', '-').replace('_', '-')}"
        return text.format(secret=self.secrets[name])

    def _database(self, name: str) -> str:
        self.secrets[name] = f"{MARK}-{len(self.secrets)}-{name.replace(' ', '-').replace('_', '-')}"
        user = {"user": ROLES[name]} if name in ROLES else {}
        return make_conninfo(self.lab.conninfo, password=self.secrets[name], **user)

    @contextmanager
    def process(self, name: str, *arguments: str) -> Iterator[None]:
        """`vitrina` in the background; what it logged is kept."""
        file = self.folder / f"{name}.log"
        with file.open("wb") as log:
            command = [sys.executable, "-m", "vitrina", name, *arguments]
            process = subprocess.Popen(
                command, env=CLEAN | self.environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )
            try:
                yield
            finally:
                process.terminate()
                process.wait(patient(30))
        self.said[f"log of {name}"] = file.read_text()

    def ask(self) -> None:
        """Every route of the API, and every page of the console."""
        with httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60, verify=False
        ) as client:
            for method, path in test_access.ROUTES:
                if method == "GET" and path != "/console":
                    self._get(client, test_access.FILES.get(path, path), "API")
            for name in ("down", "unquoted", "unreadable"):
                for action in ("validate", "preview", "reconcile"):
                    said = client.post(f"/api/v1/pipelines/{name}/{action}").text
                    self.said[f"{action} of {name}"] = said
            wrong = client.get("/api/v1/pipelines", headers={"Authorization": f"Bearer {self.secrets['direct_url']}"})
            self.said["wrong token"] = wrong.text
        with httpx.Client(
            base_url=f"{self.url}/console", headers={"Origin": self.url}, timeout=60, verify=False
        ) as client:
            signed = client.post("/sign-in", data={"token": self.token})
            assert signed.status_code == 303
            self.said["sign-in"] = f"{signed.text} {signed.headers}"
            for path in test_console.GETS:
                self._get(client, path, "console")

    def _get(self, client: httpx.Client, path: str, whose: str) -> None:
        for name in ("films", "down", "unreadable", "far"):
            url = path.replace("{id}", name).replace("{which}", name).replace("{tab}", "overview")
            url = url.replace("{run_id}", str(self._run(name))).replace("{request_id}", str(self._request()))
            if url != path or name == "films":
                params = {"once": "true", "follow": "false"}
                response = client.get(url, params=params if "live" in url or "events" in url else {})
                assert response.status_code < 500, (url, response.text)
                self.said[f"{whose} GET {url}"] = f"{response.text} {response.headers}"

    def _run(self, name: str) -> int:
        query = "SELECT max(r.id) FROM etl.etl_runs r JOIN etl.etl_pipelines p ON p.id = r.pipeline_id WHERE name = %s"
        return int(self.lab.value(query, name) or 1)

    def _request(self) -> Any:
        return self.lab.value("SELECT coalesce(min(id::text), gen_random_uuid()::text) FROM etl.etl_requests")

    def command(self, line: str) -> None:
        """The command line, whatever its exit code."""
        for code in (0, 1):
            try:
                said = vitrina(*line.split(), expect=code)
            except AssertionError:
                continue
            self.said[f"vitrina {line}"] = said.out + said.err
            return
        raise AssertionError(line)

    def stored(self) -> None:
        """Every row of the meta-store."""
        for (table,) in self.lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl'"):
            self.said[f"etl.{table}"] = str(self.lab.sql(f"SELECT t::text FROM etl.{table} t"))

    def found(self) -> dict[str, list[str]]:
        """Where which secret is said."""
        secrets = {**self.secrets, "token": self.token}
        return {
            where: told for where, text in self.said.items() if (told := [n for n, s in secrets.items() if s in text])
        }


@pytest.fixture
def planted(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    planted = Planted(lab, tmp_path, TokenRepo(lab.db).create("root", "admin"), free_port())
    for name in [name for name in os.environ if name.startswith(("VITRINA_", "ELASTICSEARCH_"))]:
        if not name.startswith("VITRINA_TEST_"):
            monkeypatch.delenv(name)
    for name, value in planted.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return planted


def add_pipelines(lab: Lab) -> list[Pipeline]:
    """One that works, one into an index that nobody serves, one for each source."""
    near = {"source_query": FILMS, "key": ["film_id"]}
    far = {"source_query": CHANGED_FILMS, "key": ["film_id"], "mode": "incremental", "incremental_key": "modified"}
    added = [
        lab.add(name="films", target_table="analytics.films", **near),
        lab.add(name="far", target_table="es:far", **near),
        *(lab.add(name=name, source=name, target_table=f"analytics.{name}", **far) for name in SOURCES),
    ]
    lab.sql("UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'")
    return added


def test_the_settings_that_hold_secrets_are_known() -> None:
    found = secret_settings()
    assert {"database_url", "elasticsearch_password", "token", "sources"} <= found.keys()
    assert (found["sources"], found["token"]) == (True, False)


AT_WORK = """  -- whoever waits for a neighbour that does not answer is left alone, until somebody runs just that
    SELECT count(*) FROM etl.etl_pipelines p
    WHERE p.status = 'RUNNING' OR p.status = 'RUN_REQUESTED' AND NOT EXISTS (
        SELECT FROM etl.etl_runners r
        WHERE r.neighbours ?| ARRAY[p.source, split_part(p.effective_target, ':', 1) || ':'])"""


UNDELIVERED = "SELECT destination FROM etl.etl_deliveries WHERE last_error IS NOT NULL"


@pytest.mark.scenario(52)
def test_a_planted_secret_is_in_no_response_log_error_event_or_row(planted: Planted) -> None:
    lab = planted.lab
    pipelines = add_pipelines(lab)
    with planted.process("serve", "--port", planted.port), planted.process("runner"):
        with httpx.Client(verify=False, timeout=60) as client:
            wait_for(lambda: is_ready(client, planted.url), 60)
        wait_for(lambda: lab.value(AT_WORK) == 0, 60)
        for (name,) in lab.sql("SELECT name FROM etl.etl_pipelines WHERE status = 'RUN_REQUESTED'"):
            planted.command(f"runner --once --pipeline {name} --patience 0")
        planted.ask()
        for line in COMMANDS:
            planted.command(line)
        wait_for(lambda: {*ALERTS} <= {name for (name,) in lab.sql(UNDELIVERED)}, 60)
    planted.stored()
    assert planted.found() == {}
    everything = "\n".join(planted.said.values())
    assert all(word in everything for word in ("cannot connect", "cannot be read", "an @ in its host", "not answer"))
    assert {pipeline.name for pipeline in pipelines if lab.last_run(pipeline)["error"] is None} == {"films", "good"}


def is_ready(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.scenario(52)
@pytest.mark.parametrize("name", [name for name, is_several in secret_settings().items() if is_several])
def test_a_secret_in_a_setting_that_cannot_be_read_is_not_repeated(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(f"VITRINA_{name.upper()}", f"postgresql://me:{MARK}@far/db")
    said = vitrina("doctor", expect=1)
    assert MARK not in said.out + said.err
    assert name.upper() in (said.out + said.err).upper()


@pytest.mark.scenario(52)
@pytest.mark.parametrize("name", ["down", "unquoted", "unreadable"])
def test_whoever_connects_says_no_secret(name: str, lab: Lab, capfd: pytest.CaptureFixture[str]) -> None:
    url = SOURCES[name].format(secret=MARK)
    for way in (lambda: connect(url, "test"), lambda: Stream(url), lambda: ask_pool(lab, url)):
        with pytest.raises(VitrinaError) as refused:
            way()
        assert MARK not in str(refused.value)
    streams = capfd.readouterr()
    assert MARK not in streams.out + streams.err


def ask_pool(lab: Lab, url: str) -> None:
    """The API's way in, which a pool logs when it fails."""
    plane = ControlPlane(url, lab.connections, patience=0.5)
    plane.pool.open()
    try:
        with plane.session():
            pass
    finally:
        plane.pool.close()


@pytest.mark.scenario(52)
def test_a_source_is_shown_without_its_secret_whatever_is_wrong_with_it(lab: Lab) -> None:
    good = make_conninfo(lab.conninfo, user="vitrina_reader", password=MARK)
    sources = {name: good if name == "good" else text.format(secret=MARK) for name, text in SOURCES.items()}
    lab.connections = replace(lab.connections, sources=sources)
    with serve(lab) as api, test_console.sign_in(api, "admin") as browser:
        listed = api.ask("GET", "/sources")
        assert {row["name"] for row in listed.json()} == {"warehouse", *SOURCES}
        said = [listed, browser.get("/sources")]
        for name in SOURCES:
            said += [api.ask("GET", f"/sources/{name}"), api.post(f"/sources/{name}/test")]
            said += [browser.get(f"/sources/{name}{page}") for page in ("", "/look")]
    assert {answer.status_code for answer in said} == {200}
    assert not [str(answer.url) for answer in said if MARK in answer.text]
