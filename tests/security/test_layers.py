"""What each layer of the SQL guard stops alone, in numbers that docs/security.md tells; and what holds without any."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corpora import FIXTURES, corpus
from tests.security.layers import Verdicts, examine, table
from tests.support import Lab

HOSTILE = corpus("hostile")
PAGE = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- layers -->\n", "\n<!-- end of layers -->"
TOLD_OF = 18  # of Postgres: older ones lack some of what the texts try


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        yield lab


@pytest.mark.long
def test_the_page_tells_what_each_layer_stops_alone(lab: Lab) -> None:
    if lab.db.info.server_version // 10_000 != TOLD_OF:
        pytest.skip(f"the page tells of Postgres {TOLD_OF}")
    verdicts = examine(lab, HOSTILE)
    assert_nothing_gets_by(verdicts)
    now, page = table(verdicts, HOSTILE), PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    told, _, after = rest.partition(END)
    if os.environ.get("VITRINA_REFRESH"):
        PAGE.write_text(before + BEGIN + now + END + after)
    else:
        assert told.splitlines() == now.splitlines(), "if that is meant, run: make security-table"


def assert_nothing_gets_by(verdicts: Verdicts) -> None:
    """Either look of the guard may fail but for what the other cannot see; any layer below may be off."""
    assert set.union(*verdicts.stopped.values()) == {text.name for text in HOSTILE}
    assert verdicts.only("grammar") == {
        "length: over 1 MB of comment",
        "length: over 1 MB of literal",
        "nesting: 5,000 NOTs",
        "parameter without a cast",
    }
    assert {layer for layer in verdicts.stopped if verdicts.only(layer)} == {"grammar", "calls"}
