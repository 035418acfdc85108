"""A mart in a lake, read by programs that nobody here wrote: equal to the query, amid runs and after kills."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.lake import LakeSink
from tests.readers import READERS, Read, Trino, in_types, reading, running
from tests.support import Lab
from vitrina.testing.faults import Nursery, change, killed
from vitrina.testing.marts import as_rows, assert_equal, items, went

TYPED = """
SELECT n::integer AS id, n::bigint * 4611686018427 AS big, (mod(n, 2) = 0) AS flag, 'é "\\' || n AS title,
       (n::numeric / 8)::numeric(20, 3) AS amount, date '1999-12-31' + n::integer AS day, n::float8 / 3 AS ratio,
       timestamp '1969-12-31 23:59:59.123456' + n * interval '1 hour' AS naive,
       timestamptz '2026-01-01 00:00:00.5+00' + n * interval '1 day' AS moment, md5(n::text)::uuid AS tag,
       ARRAY['a', NULL, 'ß' || n] AS tags, CASE WHEN mod(n, 3) = 0 THEN NULL ELSE n::smallint END AS sometimes
FROM content.number"""
LARGE = "SELECT id, title, pad FROM content.large"  # of which one file is too large to be written anew for a few rows
POINTS = ("before send:2", "after send:2", "before checkpoint:5", "after checkpoint:5")


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    with running(tmp_path_factory.mktemp("trino") / "node") as server:
        yield server


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> LakeSink:
    return LakeSink(lab, tmp_path / "lake")


@pytest.fixture(params=READERS)
def read(request: pytest.FixtureRequest, lake: LakeSink) -> Iterator[Read]:
    with ExitStack() as stack:
        yield stack.enter_context(reading(request.param, request, lake))


def make_large(lake: LakeSink) -> Any:
    lab = lake.lab
    pad = "(SELECT string_agg(md5(n || '.' || m), '') FROM generate_series(1, 8) m) AS pad"
    lab.sql(
        f"CREATE TABLE content.large AS SELECT n AS id, 'film ' || n AS title, {pad} FROM generate_series(1, 15000) n"
    )
    lab.sql("GRANT SELECT ON content.large TO vitrina_reader")
    return lab.add(source_query=LARGE, key=["id"], target_table=lake.target)


def test_every_type_is_read_as_the_query_has_it(lake: LakeSink, read: Read) -> None:
    lake.lab.sql("CREATE TABLE content.number AS SELECT n FROM generate_series(1, 50) AS n")
    lake.lab.sql("GRANT SELECT ON content.number TO vitrina_reader")
    pipeline = lake.lab.add(source_query=TYPED, key=["id"], target_table=lake.target)
    went(lake, pipeline)
    assert in_types(lake, read(lake)) == as_rows(lake.lab, TYPED, ["id"])
    lake.lab.sql("DELETE FROM content.number WHERE n % 7 = 0; UPDATE content.number SET n = n + 100 WHERE n % 5 = 0")
    went(lake, pipeline)
    assert in_types(lake, read(lake)) == as_rows(lake.lab, TYPED, ["id"])


def test_rows_that_are_marked_as_deleted_are_not_read(lake: LakeSink, read: Read) -> None:
    pipeline = make_large(lake)
    went(lake, pipeline)
    lake.lab.sql(
        "DELETE FROM content.large WHERE id % 500 = 0; UPDATE content.large SET title = 'x' WHERE id % 500 = 1"
    )
    went(lake, pipeline)
    assert any(task.delete_files for task in lake.table.scan().plan_files()), "else this shows nothing"
    assert in_types(lake, read(lake)) == as_rows(lake.lab, LARGE, ["id"])


def test_what_is_read_while_it_is_written_is_some_state_of_the_query(lake: LakeSink, read: Read) -> None:
    """Each run moves the same rows on, and then deletes one: whoever reads sees those of one run, and never of two, or
    those of an earlier one later."""
    pipeline, lab, rounds = make_large(lake), lake.lab, 4
    went(lake, pipeline)
    seen = []
    with lab.runner():
        for number in range(1, rounds + 1):
            lab.sql("UPDATE content.large SET title = %s WHERE mod(id, 500) = 1", f"round {number}")
            lab.sql("DELETE FROM content.large WHERE id = %s", number * 500)
            assert lab.request(pipeline)
            while lab.status(pipeline) != "IDLE":
                seen.append(state_of(read(lake)))
    seen.append(state_of(read(lake)))
    assert all(15000 - number <= rows <= 15001 - number for number, rows in seen)
    assert seen == sorted(seen, key=lambda state: (state[0], -state[1]))
    assert len(set(seen)) > rounds // 2, "else this shows nothing"
    assert seen[-1] == (rounds, 15000 - rounds)


def state_of(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """Which run wrote what is there, and how many rows there are."""
    [said] = {row["title"] for row in rows if row["id"] % 500 == 1 and row["title"].startswith("round")} or {"round 0"}
    assert sum(row["title"] == said for row in rows) in (0, 30)
    return int(said.removeprefix("round ")), len(rows)


def test_what_is_read_after_every_kill_is_whole(lake: LakeSink, read: Read) -> None:
    pipeline, nursery = items(lake, 60, batch_size=10), Nursery(lake.lab)
    select = str(pipeline.source_query)
    went(lake, pipeline)
    for point in POINTS:
        change(lake.lab)
        nursery.kill_at(pipeline, killed(point))
        assert in_types(lake, read(lake)) == lake.rows(["id"])
        nursery.take_over(pipeline)
        assert in_types(lake, read(lake)) == as_rows(lake.lab, select, ["id"])
    before = lake.rows(["id"])
    change(lake.lab)
    nursery.kill_at(pipeline, killed("before swap:1"), rebuild=True)
    assert in_types(lake, read(lake)) == before
    nursery.take_over(pipeline)
    assert_equal(lake, pipeline)
    assert in_types(lake, read(lake)) == as_rows(lake.lab, select, ["id"])
