"""What a test touches is found from its code."""

from pathlib import Path

from tests.capturing import own_server
from tests.choosing import WHOLE, is_for_versions, touches_postgres
from tests.conftest import lab
from tests.contract.conftest import runner, shared
from tests.elastic import Search
from tests.support import Lab, wait_for


def asks_for_a_lab_inside() -> None:
    def inner() -> object:
        return [lambda: Lab.open("vitrina_template")]

    inner()


def only_mentions_one(lab: Lab) -> Search | None:
    """Lab.open is in no code of this."""
    wait_for(lambda: lab)
    return None


def test_who_makes_a_database_touches_postgres_by_whatever_way() -> None:
    for function in (Lab.open, lab, shared, own_server, asks_for_a_lab_inside):
        assert touches_postgres(function), function


def test_who_makes_none_does_not() -> None:
    for function in (only_mentions_one, runner, Search.name, wait_for):
        assert not touches_postgres(function), function


def test_another_version_of_postgres_is_tried_with_whole_files_and_a_sample() -> None:
    root = Path(__file__).parents[2]
    assert [name for name in WHOLE if not (root / name).is_file()] == []
    assert is_for_versions("tests/integration/test_roles.py::test_any")
    others = [f"tests/contract/test_console.py::test_{number}" for number in range(400)]
    assert 60 < sum(map(is_for_versions, others)) < 140
