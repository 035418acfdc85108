"""Queries over lakes: hostile ones are refused, and by the instance alone they come to nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.corpora import corpus
from tests.lakes import know, write_lake
from tests.support import Lab
from vitrina.domain.errors import VitrinaError
from vitrina.sources.arrow.text import check_text
from vitrina.sources.duckdb.reader import DuckReader

HOSTILE = corpus("hostile_duckdb")
LAKE = (
    "CREATE SCHEMA content",
    "CREATE TABLE content.films AS SELECT range AS id, 'film' AS title FROM range(10)",
    "CREATE MACRO content.leak() AS getvariable('x')",
    "CREATE MACRO content.trim(x) AS getvariable('x') || x",
    "CREATE MACRO content.leaks() AS TABLE SELECT * FROM duckdb_settings()",
    'CREATE VIEW content.session AS SELECT name AS id, value AS "AS b" FROM duckdb_settings()',
    "CREATE VIEW content.behind AS SELECT id FROM content.session",
    "CREATE VIEW v AS SELECT name AS id FROM duckdb_settings()",
    'CREATE VIEW content."a AS SELECT 1 --" AS SELECT name AS id FROM duckdb_settings()',
    "CREATE VIEW content.runs AS SELECT id FROM query('SELECT 1 AS id')",
    "CREATE VIEW content.plain AS SELECT id, lower(title) AS title FROM content.films",
)
SECRET = "planted secret"
GUARDED_ALONE = {"copy to a file of an allowed folder": {"new.csv"}}  # below the guard, the folder's own rights stop it


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    parent = tmp_path_factory.mktemp("lakes")
    folder = parent / "allowed"
    folder.mkdir()
    outside, inside = parent / "secret.txt", folder / "plain.csv"
    outside.write_text(f"a,b\n{SECRET},1\n")
    inside.write_text("a,b\nplain,1\n")
    lake = write_lake(parent / "lake.duckdb", *LAKE)
    return {"outside": str(outside), "inside": str(inside), "folder": str(folder), "name": outside.name,
            "parent": str(parent), "lake": str(lake)}  # fmt: skip


@pytest.fixture(scope="module")
def lake(place: dict[str, str]) -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        know(lab, "lake", f"duckdb://{place['lake']}?files={place['folder']}")
        yield lab


def filled(text: str, place: dict[str, str]) -> str:
    for name, value in place.items():
        text = text.replace(f"{{{name}}}", value)
    return text


@pytest.fixture
def reader(lake: Lab) -> Iterator[DuckReader]:
    with lake.connections.resolve_reader("lake") as found:
        assert isinstance(found, DuckReader)
        yield found


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text.name)
def test_a_hostile_query_is_refused(reader: DuckReader, place: dict[str, str], text: Any) -> None:
    with pytest.raises(VitrinaError):
        read(reader, filled(text.query, place))


def read(reader: DuckReader, query: str) -> None:
    """As a run does it."""
    select = check_text(query, ())
    reader.vet(select, schemas=())
    for batch in reader.within(20).rows(select, 1000):
        assert SECRET.encode() not in batch.text


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text.name)
def test_without_the_guard_the_instance_gives_nothing_away(
    reader: DuckReader, place: dict[str, str], text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", SECRET)
    before = images(place)
    assert SECRET not in all_that_it_tells(reader.conn, filled(text.query, place))
    changed = {path.name for path, _ in images(place).items() ^ before.items()}
    assert changed == GUARDED_ALONE.get(text.name, set())
    (Path(place["folder"]) / "new.csv").unlink(missing_ok=True)


def images(place: dict[str, str]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(place["parent"]).rglob("*") if path.is_file()}


def all_that_it_tells(conn: duckdb.DuckDBPyConnection, text: str) -> str:
    told = []
    try:
        told += [str(conn.execute(statement).fetchmany(10_000)) for statement in conn.extract_statements(text)]
    except duckdb.Error as error:
        told.append(str(error))
    return "".join(told)


def test_what_is_honest_passes(reader: DuckReader, place: dict[str, str]) -> None:
    for select in (
        "SELECT id, title FROM content.films",
        "FROM content.films",
        "VALUES (1)",
        "TABLE content.films",
        "WITH RECURSIVE r AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM r WHERE id < 5) SELECT * FROM r",
        "SELECT * EXCLUDE (title) FROM content.plain ORDER BY ALL -- the end",
        "SELECT id, row_number() OVER () AS n, list_transform([1, 2], lambda x: x + id) AS l FROM content.films",
        f"SELECT a FROM read_csv('{place['inside']}')",
        "SELECT id FROM content.films TABLESAMPLE 10% (bernoulli, 3)",
        "SELECT unnest(range(3)) AS id",
        "SELECT f.user FROM (SELECT id AS user FROM content.films) AS f",
        "SELECT sum(id) FILTER (id > 1) AS s, avg(id) AS a, date_trunc('month', max(DATE '2020-01-01')) AS m"
        " FROM content.films",
    ):
        assert not [f for f in reader.vet(check_text(select, ()), schemas=()) if f.level == "error"]
        list(reader.rows(check_text(select, ()), 10))


@pytest.mark.parametrize(
    "clock", ["now()", "current_date", "today()", "current_timestamp", "age(TIMESTAMP '2020-01-01')"]
)
def test_the_clock_is_warned_of(reader: DuckReader, clock: str) -> None:
    said = reader.vet(f"SELECT {clock} AS x", schemas=())
    assert [f.level for f in said] == ["warning"]


def test_what_the_operator_vouches_for_passes(reader: DuckReader) -> None:
    assert not reader.judge("SELECT current_user AS x", schemas=(), functions=["current_user"])
