"""The same pipelines over the warehouse and over a lake: the same marts, and where engines differ the page says so."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import vitrina.demo
from tests.cinema_lake import export_cinema
from tests.lakes import know
from tests.semantics import differing, told
from tests.support import Lab

DEMO = Path(vitrina.demo.__file__).parent
# Of each pipeline of the demo, the columns whose type is another over a lake: there, and in the warehouse.
PIPELINES: dict[str, dict[str, tuple[str, str]]] = {
    "pipelines/film_dim_full": {},
    "pipelines/film_rating_agg_full": {"avg_rating": ("double precision", "numeric")},
    "pipelines/user_features": {"avg_rating": ("double precision", "numeric")},
    "pipelines/person_dim": {},
    "indexes/film_rating_agg_search": {"avg_rating": ("double precision", "numeric")},
}


@pytest.fixture
def cinema(lab: Lab, tmp_path: Path) -> Lab:
    know(lab, "lake", f"duckdb://{export_cinema(lab, tmp_path / 'lake')}/")
    return lab


def configured(name: str) -> dict[str, Any]:
    config = yaml.safe_load((DEMO / f"{name}.yaml").read_text())
    return {"source_query": config["source_query"], "key": config["key"]}


@pytest.mark.parametrize("name", PIPELINES)
def test_the_same_query_gives_the_same_mart(cinema: Lab, name: str) -> None:
    config = configured(name)
    for source in ("warehouse", "lake"):
        pipeline = cinema.add(name=source, source=source, target_table=f"analytics.of_{source}", **config)
        assert cinema.run(pipeline)["error"] is None
    assert cinema.sql("SELECT count(*) FROM analytics.of_lake") != [(0,)]
    for one, other in (("warehouse", "lake"), ("lake", "warehouse")):
        shown = ", ".join(c if c not in PIPELINES[name] else f"{c}::numeric" for c in columns(cinema, "of_lake"))
        text = f"SELECT {shown} FROM analytics.of_{one} EXCEPT SELECT {shown} FROM analytics.of_{other}"
        assert cinema.sql(text) == []
    here, there = columns(cinema, "of_lake"), columns(cinema, "of_warehouse")
    assert {c: (here[c], there[c]) for c in here if here[c] != there[c]} == PIPELINES[name]


def columns(lab: Lab, table: str) -> dict[str, str]:
    text = """SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
              WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"""
    return {row["attname"]: row["format_type"] for row in lab.db.execute(text, [f"analytics.{table}"])}


def test_the_page_says_what_the_engines_compute(cinema: Lab) -> None:
    assert len(list(told())) == 12
    with cinema.connections.resolve_reader("warehouse") as postgres:
        assert differing(postgres, "Postgres", "double precision") == {}
    with cinema.connections.resolve_reader("lake") as duckdb:
        assert differing(duckdb, "DuckDB") == {}
