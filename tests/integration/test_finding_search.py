"""How processes find the embedded Elasticsearch: by the home that they share."""

import os
from pathlib import Path

import pytest

from tests.support import ELASTIC
from vitrina.bootstrap import running_search
from vitrina.settings import Settings


@pytest.fixture
def home(elastic: str) -> Path:
    """The home of the server that all tests share."""
    del elastic
    return Path(os.environ[ELASTIC]).parent


def test_the_server_of_the_home_is_found_and_all_its_indexes_are_allowed(home: Path, elastic: str) -> None:
    found = running_search(Settings(home=home))
    assert found.elasticsearch_url
    assert found.elasticsearch_url.get_secret_value() == elastic
    assert found.allowed_es_indexes == ["*"]


@pytest.mark.parametrize("allowed", [["film_*"], []])
def test_a_whitelist_that_somebody_wrote_stays(home: Path, allowed: list[str]) -> None:
    assert running_search(Settings(home=home, allowed_es_indexes=allowed)).allowed_es_indexes == allowed


def test_a_server_that_is_named_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_URL", "http://search.example:9200")
    settings = Settings(home=home)
    assert running_search(settings) is settings


def test_one_that_is_stopped_has_no_address_and_still_refuses_no_index(tmp_path: Path) -> None:
    """Its marts are told that it is not running, and not that they may not be there."""
    settings = Settings(home=tmp_path)
    (tmp_path / "elasticsearch").mkdir()
    (tmp_path / "elasticsearch" / "port").write_text("9200")
    found = running_search(settings)
    assert (found.elasticsearch_url, found.allowed_es_indexes) == (None, ["*"])


def test_a_home_without_one_gives_none_and_makes_nothing(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    assert running_search(settings) is settings
    assert not settings.home.exists()
