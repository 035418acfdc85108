"""Hostile queries by Spark Connect: refused by their words, or by the engine's parser."""

import pytest

from tests.corpora import Text
from tests.engines import HONEST, HOSTILE, assert_refused, read
from tests.engines import place as place
from tests.lakes import know
from tests.support import Lab


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text.name)
def test_a_hostile_query_is_refused(lab: Lab, sail: str, place: dict[str, str], text: Text) -> None:
    know(lab, "lake", sail)
    with lab.connections.resolve_reader("lake") as reader:
        assert_refused(reader, place, text)


def test_what_is_honest_passes(lab: Lab, sail: str) -> None:
    know(lab, "lake", sail)
    with lab.connections.resolve_reader("lake") as reader:
        for select in HONEST:
            read(reader, select)
        assert [f.level for f in reader.vet("SELECT now() AS x, CURRENT_DATE AS y", schemas=())] == ["warning"] * 2
