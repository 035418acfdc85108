"""A driver of Spark that takes every connection and never answers: nobody waits for it."""

import socket
from collections.abc import Iterator
from time import monotonic

import pytest

from tests.support import Lab
from vitrina.domain.errors import DatabaseLost, RetryableError
from vitrina.sources.engine import Errand
from vitrina.sources.source import Address
from vitrina.sources.spark import asking
from vitrina.sources.spark.kind import SPARK

pytest.importorskip("pyspark")
MOST = 15  # seconds; with no end of its own it is forever


def nothing() -> None:
    """Stands in a run's way."""


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Its address."""
    from vitrina.sources.spark import reader, sessions

    monkeypatch.setattr(reader, "SECONDS", 0.5)
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 0.5)
    for module in (reader, asking):
        monkeypatch.setattr(module, "END_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"sc://127.0.0.1:{server.getsockname()[1]}"


def test_a_source_that_never_answers_is_away(lab: Lab, silent: str) -> None:
    begun = monotonic()
    with pytest.raises(DatabaseLost, match="cluster has gone"):
        SPARK.open(Address("cluster", silent, False, {}, lab.connections.settings))
    assert monotonic() - begun < MOST


def test_an_engine_that_never_answers_is_away(lab: Lab, silent: str) -> None:
    """And keeps no other session of this process from ending."""
    from vitrina.sources.spark.sessions import engine_of

    begun = monotonic()
    errand = Errand("films, run 1", nothing, print, 1.0)
    with pytest.raises(RetryableError) as caught:
        engine_of(silent, lab.connections.settings, "cluster", errand, None)  # type: ignore[arg-type]
    assert (caught.value.neighbour, monotonic() - begun < MOST) == ("cluster", True)


def test_what_is_under_way_at_one_that_fell_silent_ends(lab: Lab, silent: str) -> None:
    """A statement, its interruption and the end of its session."""
    from vitrina.sources.spark.client import as_a_program
    from vitrina.sources.spark.working import Working

    with as_a_program():
        from pyspark.sql.connect.session import SparkSession

    begun = monotonic()
    session = SparkSession.builder.remote(silent).create()
    working = Working(session, "cluster", Errand("films, run 1", nothing, print, 0.5))
    with pytest.raises(Exception, match="took more than"):
        working.run("SELECT 1", "reading")
    working.close()
    working._aside.shutdown(wait=True)
    assert monotonic() - begun < MOST


def test_how_much_a_query_gives_is_told_by_the_first_line_of_its_plan() -> None:
    """Not by a leaf of it; and a product of guesses is no guess."""
    from vitrina.sources.spark.reader import _estimate

    join = (
        "== Optimized Logical Plan ==\nJoin Cross, Statistics(sizeInBytes={})\n:- Range, Statistics(rowCount=7.0E+0)\n"
    )
    found = _estimate(join.format("1000.0 B"))
    assert found is not None
    assert found.rows == 10
    assert _estimate(join.format("64.0 EiB")) is None
