"""Secrets leave no trace where others look; what people do leaves one."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
import uvicorn
from rich.table import Table

from tests.contract.server import Api
from tests.contract.test_console import RUN, sign_in
from tests.patience import promptly
from tests.support import Lab, wait_for
from vitrina.cli.output import console, say_json
from vitrina.cli.processes import Background
from vitrina.cli.serve import believed
from vitrina.cli.stack import without_password
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import Settings

AUDIT = "SELECT actor, action, details FROM etl.etl_audit ORDER BY id"


def test_psql_is_given_the_password_beside_its_command_line() -> None:
    shown, hidden = without_password("postgresql://cinema:hush%40me@host:5432/cinema?sslmode=require")
    assert "hush" not in shown
    assert hidden == {"PGPASSWORD": "hush@me"}
    assert "sslmode=require" in shown
    assert without_password("dbname=cinema user=cinema")[1] == {}


def test_logs_of_processes_in_the_background_are_for_their_owner_only(tmp_path: Path) -> None:
    process = Background(tmp_path / "home", "version")
    process.log.parent.mkdir(parents=True)
    process.log.touch(0o644)  # of an earlier version
    process.start("--version", settings=Settings())
    wait_for(lambda: "vitrina" in process.log.read_text(), 30)
    assert stat.S_IMODE(process.log.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\x9b2Jb", "bell\x07", "\u202egpj.exe", "c\x7f"])
def test_a_name_cannot_command_the_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_column("name")
    table.add_row(name)
    for said in (name, table):
        console().print(said)
    say_json({"name": name})
    told = capsys.readouterr().out
    assert not any(char in told for char in "\x1b\x9b\x07\u202e\x7f")
    assert json.loads(told[told.index("{") :]) == {"name": name}


# ── what people do ───────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_that_come_and_go_are_in_the_audit_log(lab: Lab) -> None:
    token = TokenRepo(lab.db).create("anna", "operator")
    TokenRepo(lab.db).revoke("anna")
    lab.sql("DELETE FROM etl.etl_tokens WHERE name = 'anna'")
    rows = lab.sql(AUDIT)
    assert [action for _, action, _ in rows] == ["create-token", "revoke-token", "delete-token"]
    assert all(details == {"token": "anna", "role": "operator"} for *_, details in rows)
    assert all(actor for actor, *_ in rows)
    assert token not in str(rows)


def test_who_is_not_let_in_is_in_the_audit_log(api: Api) -> None:
    wrong = {"Authorization": "Bearer vtr_wrong-secret"}
    assert httpx.get(f"{api.url}/api/v1/pipelines", headers=wrong, timeout=60).status_code == 401
    form = {"token": "vtr_wrong-secret"}
    assert (
        httpx.post(f"{api.url}/console/sign-in", data=form, headers={"Origin": api.url}, timeout=60).status_code == 401
    )
    rows = api.lab.sql(AUDIT)
    assert [action for _, action, _ in rows] == ["token refused", "sign-in refused"]
    assert all(details["from"] == "127.0.0.1" for *_, details in rows)
    assert "wrong-secret" not in str(rows)


def test_a_flood_of_wrong_tokens_does_not_fill_the_audit_log(api: Api) -> None:
    with httpx.Client(headers={"Authorization": "Bearer vtr_wrong"}, timeout=60) as client:
        for _ in range(60):
            client.get(f"{api.url}/api/v1/pipelines")
    assert api.lab.value("SELECT count(*) FROM etl.etl_audit") == 30


# ── what is revoked ends ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def endless(api: Api) -> int:
    """A run that has not ended, and a token that a test may revoke."""
    api.create()
    api.lab.sql(RUN)
    api.lab.sql("UPDATE etl.etl_runs SET status = 'RUNNING', finished_at = NULL")
    return int(api.lab.value("SELECT max(id) FROM etl.etl_runs"))


def test_the_stream_of_a_revoked_token_ends(api: Api, endless: int) -> None:
    token = TokenRepo(api.lab.db).create("leaver", "viewer")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.stream("GET", f"{api.url}/api/v1/runs/{endless}/events", headers=headers, timeout=60) as response:
        assert response.status_code == 200
        TokenRepo(api.lab.db).revoke("leaver")
        with promptly(10):
            assert "end" not in "".join(response.iter_text())
    api.lab.sql("DELETE FROM etl.etl_tokens WHERE name = 'leaver'")


def test_the_stream_of_a_session_that_ended_ends(api: Api, endless: int) -> None:
    with sign_in(api, "viewer") as browser, browser.stream("GET", f"/live/runs/{endless}", timeout=60) as response:
        assert response.status_code == 200
        api.lab.sql("DELETE FROM etl.etl_sessions")
        with promptly(10):
            assert "event: again" not in "".join(response.iter_text())


# ── behind a proxy ───────────────────────────────────────────────────────────────────────────────────────────────


async def tell_scheme(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})


def trusting(*proxies: str) -> Settings:
    return Settings.model_construct(trusted_proxies=list(proxies))


def scheme_from(address: str, settings: Settings) -> str:
    """What the server thinks that somebody used, who came by way of a proxy at this address of this machine."""
    server = uvicorn.Server(
        uvicorn.Config(tell_scheme, port=0, log_level="error", lifespan="off", forwarded_allow_ips=believed(settings))
    )
    thread = Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address), trust_env=False, timeout=60) as client:
        told = client.get(f"http://127.0.0.1:{port}/", headers={"X-Forwarded-Proto": "https"}).text
    server.should_exit = True
    thread.join()
    return told


def test_a_proxy_elsewhere_is_believed_if_it_is_trusted() -> None:
    assert scheme_from("127.0.0.1", trusting()) == "https"
    assert scheme_from("127.0.0.2", trusting()) == "http"
    assert scheme_from("127.0.0.2", trusting("127.0.0.2/31")) == "https"


def test_the_cookie_is_secure_where_people_come_by_https(api: Api) -> None:
    form, headers = {"token": api.tokens["viewer"]}, {"Origin": api.url}
    plane = api.app.state.plane
    before = plane.connections
    try:
        for url, secure in ((None, False), ("https://vitrina.example", True)):
            plane.connections = replace(before, settings=before.settings.model_copy(update={"public_url": url}))
            answer = httpx.post(f"{api.url}/console/sign-in", data=form, headers=headers, timeout=60)
            assert ("Secure" in answer.headers["set-cookie"]) is secure
    finally:
        plane.connections = before
