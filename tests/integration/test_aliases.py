"""Columns that are called like something of ours: every alias and every column that composed statements use."""

import re
from pathlib import Path
from typing import Any

import pytest

import vitrina
from tests.elastic import Search
from tests.support import Lab

ROOMS = [Path(vitrina.__file__).parent / name for name in ("engine", "sinks", "sources", "capture", "inquiries")]
AFTER_AS = re.compile(r"\b(?:AS|WITH|JOIN|FROM)\s+([a-z][a-z_0-9]*)\b")


def names() -> list[str]:
    """Whatever follows AS, and the like, in a statement of a run; a query that has vitrina_… is refused."""
    found = {name for room in ROOMS for file in room.rglob("*.py") for name in AFTER_AS.findall(file.read_text())}
    return sorted(name for name in found | {"c1", "s1", "m1", "d", "q", "m"} if not name.startswith("vitrina_"))


@pytest.fixture
def select(lab: Lab) -> str:
    """A query that gives a column for each, after its key."""
    columns = ", ".join(f"""'{name}' || n AS "{name}\"""" for name in names() if name != "id")
    lab.sql("CREATE TABLE content.thing AS SELECT n, now() AS at FROM generate_series(1, 7) n")
    lab.sql("GRANT SELECT ON content.thing TO vitrina_reader")
    return f"SELECT n AS id, at AS seen_at, {columns} FROM content.thing"


@pytest.mark.parametrize(
    "mode", [{}, {"mode": "incremental", "incremental_key": "seen_at", "incremental_id_key": "id"}], ids=str
)
def test_they_can_go_to_a_table(lab: Lab, select: str, mode: dict[str, Any]) -> None:
    pipeline = lab.add(source_query=select, key=["id"], batch_size=3, **mode)
    assert (lab.run(pipeline)["error"], lab.last_run(pipeline)["rows_written"]) == (None, 7)
    lab.assert_equal(pipeline)
    lab.sql("UPDATE analytics.mart SET d = 'x', q = 'y' WHERE id = 3")
    assert lab.reconcile(pipeline)["equal"] is False
    lab.run(pipeline, repair=True)
    lab.assert_equal(pipeline)


def test_they_can_go_to_an_index(search: Search, select: str) -> None:
    pipeline = search.add(source_query=select, key=["id"])
    assert (search.lab.run(pipeline)["error"], search.lab.last_run(pipeline)["rows_written"]) == (None, 7)
    assert search.lab.reconcile(pipeline)["equal"] is True
