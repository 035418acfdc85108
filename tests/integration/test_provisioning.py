"""Secrets that a deployment chose: set once, again without effect, changed when they change; and a runner's probe."""

import socket
import uuid

import pytest
from pydantic import SecretStr

from tests.acceptance.client import vitrina
from tests.support import QUICK, Lab
from vitrina.cli.provisioning import SIGN_INS, provision
from vitrina.domain.errors import ConfigError
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.meta.roles import ALL
from vitrina.settings import Settings

TOKEN, OTHER = "t" * 32, "o" * 32
SEEN = "INSERT INTO etl.etl_runners (id, name, version, slots, seen_at) VALUES (%s, %s, '1', 4, now() - %s::interval)"


def settings(token: str = TOKEN, **urls: str) -> Settings:
    return Settings(**(QUICK | {"token": SecretStr(token)} | {name: SecretStr(url) for name, url in urls.items()}))


def test_every_role_gets_the_password_of_its_url_and_the_server_sees_only_its_hash(lab: Lab) -> None:
    urls = {v.removeprefix("VITRINA_").lower(): f"postgresql://{r}:pass-of-{r}@h/db" for v, r in SIGN_INS.items()}
    lab.sql("SET log_statement = 'all'")
    said = provision(lab.db, settings(**urls))
    assert len(said) == len(ALL) + 1
    assert "pass-of" not in " ".join(said)
    stored = [
        password for (password,) in lab.sql("SELECT rolpassword FROM pg_authid WHERE rolname = ANY (%s)", list(ALL))
    ]
    assert all(password.startswith("SCRAM-SHA-256$") for password in stored)


@pytest.mark.parametrize(
    ("url", "said"),
    [("postgresql://cinema:planted@h/db", "signs in as cinema"), ("host=h password=planted x", "cannot be read")],
)
def test_a_url_that_is_of_no_use_is_refused_and_shows_no_password(lab: Lab, url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"VITRINA_RUNNER_URL {said}") as caught:
        provision(lab.db, settings(runner_url=url))
    assert "planted" not in str(caught.value)


def test_the_token_opens_the_api_until_another_takes_its_place(lab: Lab) -> None:
    tokens = TokenRepo(lab.db)
    for _ in range(2):
        provision(lab.db, settings())
        assert tokens.find(TOKEN) == {"name": "provisioned", "role": "admin"}
    provision(lab.db, settings(OTHER))
    assert (tokens.find(TOKEN), bool(tokens.find(OTHER))) == (None, True)


def test_a_token_that_was_revoked_stays_so(lab: Lab) -> None:
    provision(lab.db, settings())
    TokenRepo(lab.db).revoke("provisioned")
    provision(lab.db, settings())
    assert TokenRepo(lab.db).find(TOKEN) is None


def test_a_token_that_could_be_guessed_is_refused(lab: Lab) -> None:
    with pytest.raises(ConfigError, match="9 characters, and could be guessed"):
        provision(lab.db, settings("change-me"))


@pytest.mark.parametrize(("ago", "expect"), [("1 second", 0), ("1 hour", 1)])
def test_a_probe_says_whether_a_runner_of_this_host_was_heard_of(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, ago: str, expect: int
) -> None:
    monkeypatch.setenv("VITRINA_DATABASE_URL", lab.conninfo)
    lab.sql(SEEN, uuid.uuid4(), "elsewhere:1", "1 second")
    lab.sql(SEEN, uuid.uuid4(), f"{socket.gethostname()}:1", ago)
    vitrina("runner", "--alive", expect=expect)


def test_a_probe_does_not_blame_the_runner_for_a_meta_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    assert "cannot tell" in vitrina("runner", "--alive").err
