"""What comes by Arrow goes wherever marts live, through transforms too; and can be looked at and compared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.elastic import Search
from tests.lake import LakeSink
from tests.lakes import know, write_lake
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.transforms import Row, transform

FILMS = """CREATE TABLE films AS SELECT range::INTEGER AS id, 'film ' || range AS title,
           (range / 10)::DECIMAL(5,1) AS rating, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS at, [range] AS marks
           FROM range(1, 301)"""
CHANGE = ("DELETE FROM films WHERE id = 3", "UPDATE films SET title = 'other' WHERE id = 4")
QUERY = "SELECT * FROM films"


@transform("loud_lake")
def loud(rows: Sequence[Row]) -> list[Row]:
    return [row | {"title": row["title"].upper()} for row in rows]


@pytest.fixture
def path(lab: Lab, tmp_path: Path) -> Path:
    path = write_lake(tmp_path / "films.duckdb", FILMS)
    know(lab, "duck", f"duckdb://{path}")
    return path


def films(lab: Lab, target: str, **config: Any) -> Pipeline:
    config = {"source_query": QUERY, "key": ["id"], "batch_size": 100} | config
    return lab.add(source="duck", target_table=target, **config)


def test_a_table_of_iceberg_is_kept_equal(lab: Lab, path: Path, tmp_path: Path) -> None:
    sink = LakeSink(lab, tmp_path / "lake")
    know(lab, "duck", f"duckdb://{path}")
    pipeline = films(lab, sink.target)
    assert lab.run(pipeline)["error"] is None
    write_lake(path, *CHANGE)
    done = lab.run(pipeline)
    assert (done["error"], done["rows_written"], done["rows_deleted"]) == (None, 1, 1)
    rows = sink.table.scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["title"]) for row in rows) == sorted(
        (n, "other" if n == 4 else f"film {n}") for n in range(1, 301) if n != 3
    )
    assert lab.reconcile(pipeline)["equal"]


def test_an_index_is_kept_equal(search: Search, tmp_path: Path) -> None:
    path = write_lake(tmp_path / "films.duckdb", FILMS)
    know(search.lab, "duck", f"duckdb://{path}")
    pipeline = films(search.lab, search.target())
    assert search.lab.run(pipeline)["error"] is None
    write_lake(path, *CHANGE)
    done = search.lab.run(pipeline)
    assert (done["error"], done["rows_written"], done["rows_deleted"]) == (None, 1, 1)
    found = search.documents()
    assert len(found) == 299
    assert {document["title"] for id_, document in found.items() if id_ in ("4", "5")} == {"other", "film 5"}
    assert search.lab.reconcile(pipeline)["equal"]


@pytest.mark.parametrize("publish", ["batches", "atomic"])
def test_rows_go_through_transforms(lab: Lab, path: Path, publish: str) -> None:
    pipeline = films(lab, "analytics.films", type="PYTHON", python_task="loud_lake", publish=publish)
    assert lab.run(pipeline)["error"] is None
    row = lab.sql("SELECT title, rating::text, marks::text, at = '2020-01-01+00' FROM analytics.films WHERE id = 7")
    assert row == [("FILM 7", "0.7", "{7}", True)]
    write_lake(path, *CHANGE)
    assert lab.run(pipeline)["rows_written"] == 1


def test_a_preview_shows_the_first_rows_and_reconcile_what_differs(lab: Lab, path: Path) -> None:
    pipeline = films(lab, "analytics.films")
    shown = lab.answer("preview", pipeline, limit=2)
    assert shown["error"] is None
    assert [row["title"] for row in shown["result"]["rows"]] == ["film 1", "film 2"]
    lab.run(pipeline)
    assert lab.reconcile(pipeline)["equal"]
    lab.sql("UPDATE analytics.films SET title = 'damaged' WHERE id = 7")
    report = lab.reconcile(pipeline)
    assert (report["equal"], report["different"]) == (False, 1)
