"""Whatever speaks Spark Connect, attacked: one suite for Sail and for Spark."""

from pathlib import Path

import pytest

from tests.corpora import Text, corpus
from vitrina.domain.errors import VitrinaError
from vitrina.sources.arrow.text import check_text
from vitrina.sources.source import Source

HOSTILE = corpus("hostile_spark")
SECRET = "planted secret"
HONEST = (
    "SELECT 1 AS id",
    "VALUES (1), (2)",
    "WITH t AS (SELECT 1 AS id) SELECT * FROM t -- the end",
    "SELECT id, row_number() OVER (ORDER BY id) AS n FROM range(3)",
    "SELECT id, 'from csv.`/x`; USING ''y''' AS said FROM range(3) AS a JOIN range(3) AS b USING (id)",
    "SELECT transform(array(1, 2), x -> x + 1) AS l /* java_method('x') /* nested */ */",
    "SELECT `a/b` FROM (SELECT 1 AS `a/b`) AS t",
    "SELECT sum(id) FILTER (WHERE id > 1) AS s, avg(id) AS a FROM range(10)",
)


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    outside = tmp_path / "outside.txt"
    outside.write_text(f"{SECRET}\n")
    return {"outside": str(outside), "target": str(tmp_path / "target")}


def filled(text: Text, place: dict[str, str]) -> str:
    query = text.query
    for name, value in place.items():
        query = query.replace(f"{{{name}}}", value)
    return query


def read(reader: Source, query: str) -> None:
    """As a run does it."""
    select = check_text(query, ())
    reader.vet(select, schemas=())
    for batch in reader.within(60).rows(select, 1000):
        assert SECRET.encode() not in batch.text


def assert_refused(reader: Source, place: dict[str, str], text: Text) -> None:
    """By the words, or by the engine's parser; and nothing was done."""
    with pytest.raises(VitrinaError):
        read(reader, filled(text, place))
    assert not Path(place["target"]).exists()
