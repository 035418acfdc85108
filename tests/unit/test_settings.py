"""Settings: where they come from, which of them wins, and what nobody has to set."""

import os
import pickle
from pathlib import Path

import pytest
from pydantic import SecretStr

from vitrina.cli.stamps import changes, write
from vitrina.demo.settings import allow_cinema
from vitrina.domain.errors import ConfigError
from vitrina.meta.conninfo import Said, setting_of
from vitrina.settings import Settings, variable
from vitrina.spelling import misspelt

ONE = SecretStr | None
SECRETS = [name for name, field in Settings.model_fields.items() if field.annotation == ONE]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one to work in, and nothing set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("VITRINA_", "ELASTICSEARCH_"))]:
        monkeypatch.delenv(name)
    return tmp_path


def test_nobody_who_has_set_nothing_has_the_cinema_in_it() -> None:
    assert Settings().allowed_source_schemas == Settings().search_path == ["public"]


def test_what_the_demo_needs_is_known_to_the_processes_that_come_after_it() -> None:
    assert allow_cinema(Settings()).allowed_source_schemas == ["public", "content", "ugc", "analytics"]
    assert Settings().allowed_source_schemas == ["public", "content", "ugc", "analytics"]
    assert Settings(_env_file=None).allowed_source_schemas == ["public"]  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("named", "allowed"),
    [
        ({}, None),
        ({"ELASTICSEARCH_URL": "http://search:9200"}, ["film_dim", "film_rating_agg"]),
        ({"VITRINA_ALLOWED_ES_INDEXES": "mine_*"}, ["mine_*", "film_dim", "film_rating_agg"]),
    ],
)
def test_the_demo_names_indexes_where_not_all_are_allowed(
    named: dict[str, str], allowed: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that is named ends that all indexes of an embedded server are allowed, for everybody's pipelines."""
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    assert allow_cinema(Settings()).allowed_es_indexes == (allowed or [])
    monkeypatch.delenv("VITRINA_ALLOWED_ES_INDEXES", raising=False)
    left = Settings()
    assert (left.allowed_es_indexes if "allowed_es_indexes" in left.model_fields_set else None) == allowed


def test_it_is_found_wherever_home_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".env").write_text("VITRINA_HOME=elsewhere\n")
    allow_cinema(Settings())
    assert (folder / "elsewhere" / "demo.env").exists()
    assert "ugc" in Settings().allowed_source_schemas
    monkeypatch.setenv("VITRINA_HOME", "third")
    assert Settings().allowed_source_schemas == ["public"]


def test_what_somebody_has_set_is_above_what_the_demo_has_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / ".env").write_text("VITRINA_ALLOWED_SOURCE_SCHEMAS=sales\n")
    assert allow_cinema(Settings()).allowed_source_schemas == ["sales", "content", "ugc", "analytics"]
    assert Settings().allowed_source_schemas == ["sales"]
    monkeypatch.setenv("VITRINA_ALLOWED_SOURCE_SCHEMAS", "crm")
    assert Settings().allowed_source_schemas == ["crm"]


# ── secrets in files ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_may_be_in_a_file(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "secret").write_text("of a file\n")
    monkeypatch.setenv(f"{variable(name)}_FILE", str(folder / "secret"))
    found = getattr(Settings(), name)
    assert found.get_secret_value() == "of a file"


@pytest.mark.parametrize("name", ["sources", "capture_sources"])
def test_so_may_that_of_each_source(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "shop").write_text("postgresql://shop")
    (folder / ".env").write_text(f"VITRINA_{name.upper()}__SHOP_FILE=shop\n")
    monkeypatch.setenv(f"VITRINA_{name.upper()}__CRM", "postgresql://crm")
    found = {source: url.get_secret_value() for source, url in getattr(Settings(), name).items()}
    assert found == {"shop": "postgresql://shop", "crm": "postgresql://crm"}


def test_what_is_a_file_by_itself_stays_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_ELASTICSEARCH_CA_FILE", "/etc/ca.pem")
    assert Settings().elasticsearch_ca_file == Path("/etc/ca.pem")


def test_a_file_of_the_environment_is_above_a_secret_of_the_env_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text("VITRINA_TOKEN=old\n")
    (folder / "token").write_text("new")
    monkeypatch.setenv("VITRINA_TOKEN_FILE", "token")
    found = Settings().token
    assert found is not None
    assert found.get_secret_value() == "new"


@pytest.mark.parametrize(
    ("file", "said"),
    [("nowhere", "nowhere, which cannot be read: No such file"), (".", "cannot be read: Is a dir"), ("none", "empty")],
)
def test_a_file_that_holds_no_secret_is_named_with_its_setting(
    file: str, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "none").write_text("\n")
    monkeypatch.setenv("VITRINA_SOURCES__SHOP_FILE", file)
    with pytest.raises(ConfigError, match=f"VITRINA_SOURCES__SHOP_FILE names .*{said}"):
        Settings()


def test_a_secret_is_not_said_in_two_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_TOKEN", "one")
    monkeypatch.setenv("VITRINA_TOKEN_FILE", "two")
    with pytest.raises(ConfigError, match="VITRINA_TOKEN and VITRINA_TOKEN_FILE are both set"):
        Settings()


def test_an_address_that_is_handed_to_another_process_still_knows_its_setting() -> None:
    found = pickle.loads(pickle.dumps(Said("postgresql://h/db", "VITRINA_SOURCES__SHOP")))
    assert (found, setting_of(found)) == ("postgresql://h/db", "VITRINA_SOURCES__SHOP")


def test_what_is_almost_a_setting_is_noticed_and_what_is_somebody_elses_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITRINA_ALLOWED_SOURCE_SCHEMA", "public")
    monkeypatch.setenv("VITRINA_TEAM", "ours")
    monkeypatch.setenv("VITRINA_TOKEN_FILE", "/run/secrets/token")
    (folder / ".env").write_text("VITRINA_SOURCE__SHOP=postgresql://h/shop\nVITRINA_SOURCES__CRM=postgresql://h/crm\n")
    assert dict(misspelt()) == {
        "VITRINA_ALLOWED_SOURCE_SCHEMA": "VITRINA_ALLOWED_SOURCE_SCHEMAS",
        "VITRINA_SOURCE__SHOP": "VITRINA_SOURCES__SHOP",
    }


def test_whatever_changes_is_told_by_its_variable_and_no_secret_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "runner-1.settings"
    monkeypatch.setenv("VITRINA_ALERTS__CHAT__URL", "https://chat/planted-before")
    monkeypatch.setenv("VITRINA_SOURCES__SHOP", "postgresql://h/shop")
    write(kept, Settings(), [])
    assert changes(kept, Settings()) == []
    monkeypatch.setenv("VITRINA_ALERTS__CHAT__URL", "https://chat/planted-after")
    monkeypatch.setenv("VITRINA_SOURCES__SHOP", "postgresql://elsewhere/shop")
    monkeypatch.setenv("VITRINA_SLOTS", "7")
    assert changes(kept, Settings()) == ["VITRINA_ALERTS__CHAT__URL", "VITRINA_SLOTS", "VITRINA_SOURCES__SHOP"]
    assert "planted" not in kept.read_text()
