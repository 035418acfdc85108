"""Python transforms: rows in, rows out, keys kept; what breaks the contract is named and nothing is written."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support import Lab
from vitrina import Row, transform
from vitrina.domain.pipeline import Pipeline
from vitrina.transforms import REGISTRY
from vitrina.transforms.chain import load_transforms

SELECT = "SELECT n AS id, 'name ' || n AS name, n * 10 AS at FROM content.thing"


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    load_transforms([])  # what is installed stays
    known = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(known)


def register(name: str, change: Callable[[Row], Any], **contract: Any) -> None:
    """A transform that changes each row; one that gives None is left out."""

    def apply(rows: Sequence[Row]) -> Any:
        return [row for row in map(change, rows) if row is not None]

    apply.__qualname__ = name
    transform(name, **contract)(apply)


def things(lab: Lab, *names: str, **config: Any) -> Pipeline:
    lab.sql("CREATE TABLE content.thing AS SELECT n FROM generate_series(1, 10) n")
    tasks = [{"order_index": 1, "task_type": "SQL", "body": SELECT}]
    tasks += [{"order_index": n, "task_type": "PYTHON", "body": name} for n, name in enumerate(names, 2)]
    return lab.add(**({"tasks": tasks, "key": ["id"], "batch_size": 3} | config))


def went(lab: Lab, pipeline: Pipeline) -> tuple[int, int]:
    run = lab.run(pipeline)
    assert run["error"] is None
    return run["rows_written"], run["rows_deleted"]


def mart(lab: Lab) -> list[Any]:
    return lab.sql("SELECT * FROM analytics.mart ORDER BY 1")


INCREMENTAL = {"mode": "incremental", "incremental_key": "at"}
MODES = pytest.mark.parametrize("mode", [{}, INCREMENTAL], ids=["full", "incremental"])


@MODES
def test_steps_follow_each_other(lab: Lab, mode: dict[str, Any]) -> None:
    register("shout", lambda row: row | {"name": row["name"].upper()})
    register("greet", lambda row: row | {"name": f"Hi {row['name']}"})
    assert went(lab, things(lab, "shout", "greet", **mode)) == (10, 0)
    assert mart(lab)[0] == (1, "Hi NAME 1", 10)


@MODES
def test_columns_are_added_and_dropped(lab: Lab, mode: dict[str, Any]) -> None:
    def change(row: Row) -> Row:
        return {"id": row["id"], "at": row["at"], "size": len(row["name"]), "tags": [row["name"], None]}

    register("measure", change, adds={"size": "bigint", "tags": "text[]"}, drops=["name"])
    pipeline = things(lab, "measure", **mode)
    assert went(lab, pipeline) == (10, 0)
    assert mart(lab)[0] == (1, 10, 6, ["name 1", None])
    assert went(lab, pipeline) == (0, 0)


@MODES
def test_a_dropped_cursor_does_no_harm(lab: Lab, mode: dict[str, Any]) -> None:
    register("forget", lambda row: {"id": row["id"], "name": None}, drops=["at"])
    pipeline = things(lab, "forget", **mode)
    assert went(lab, pipeline) == (10, 0)
    lab.sql("INSERT INTO content.thing VALUES (11)")
    assert went(lab, pipeline) == (1, 0)
    assert mart(lab)[10] == (11, None)


def test_a_row_that_is_left_out_leaves_the_mart(lab: Lab) -> None:
    limit = [10]
    register("filter", lambda row: row if row["id"] <= limit[0] else None)
    pipeline = things(lab, "filter")
    assert went(lab, pipeline) == (10, 0)
    limit[0] = 7
    assert went(lab, pipeline) == (0, 3)
    assert [row[0] for row in mart(lab)] == [1, 2, 3, 4, 5, 6, 7]


def test_a_row_that_is_left_out_leaves_the_mart_when_it_is_next_seen(lab: Lab) -> None:
    limit = [10]
    register("filter", lambda row: row if row["id"] <= limit[0] else None)
    select = "SELECT n AS id, v, at FROM content.thing"
    lab.sql("CREATE TABLE content.thing AS SELECT n, 0 AS v, n AS at FROM generate_series(1, 10) n")
    config = {"type": "PYTHON", "python_task": "filter", "source_query": select, "key": ["id"], "batch_size": 2}
    pipeline = lab.add(**config, **INCREMENTAL)
    assert went(lab, pipeline) == (10, 0)
    limit[0] = 5
    lab.sql("UPDATE content.thing SET v = 1, at = at + 100 WHERE n BETWEEN 4 AND 7")
    assert went(lab, pipeline) == (2, 2)
    assert mart(lab) == [(1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 1, 104), (5, 1, 105), (8, 0, 8), (9, 0, 9), (10, 0, 10)]


def test_a_transform_that_suddenly_leaves_out_everything_does_not_empty_an_incremental_mart(lab: Lab) -> None:
    works = [True]
    register("filter", lambda row: row if works[0] else None)
    lab.configure(max_delete_rows=4)
    pipeline = things(lab, "filter", **INCREMENTAL)
    assert went(lab, pipeline) == (10, 0)
    works[0] = False
    assert "this would delete 6 of 10 rows" in lab.run(pipeline, restart=True)["said"]
    assert [row[0] for row in mart(lab)] == [4, 5, 6, 7, 8, 9, 10]
    assert lab.run(pipeline, allow_deletes=True)["status"] == "SUCCESS"
    assert mart(lab) == []


def test_every_row_left_out_of_an_empty_mart(lab: Lab) -> None:
    register("none", lambda row: None)
    assert went(lab, things(lab, "none")) == (0, 0)


def test_every_row_left_out_of_a_full_mart_is_a_mass_delete(lab: Lab) -> None:
    keep = [True]
    register("filter", lambda row: row if keep[0] else None)
    pipeline = things(lab, "filter")
    went(lab, pipeline)
    keep[0] = False
    assert "would delete 10 of 10 rows" in lab.run(pipeline)["said"]
    assert len(mart(lab)) == 10


def test_type_python_and_the_key_of_the_mart(lab: Lab) -> None:
    register("same", lambda row: row)
    lab.sql("CREATE TABLE analytics.mart (id int PRIMARY KEY, title text)")
    select = "SELECT n AS id, 'x' AS title FROM generate_series(1, 4) n"
    pipeline = lab.add(type="PYTHON", python_task="same", source_query=select)
    assert went(lab, pipeline) == (4, 0)
    lab.assert_equal(pipeline)


# ── broken contracts ─────────────────────────────────────────────────────────────────────────────────────────────


def on(number: int, change: Callable[[Row], Any]) -> Callable[[Row], Any]:
    """Only the row with this id is changed."""
    return lambda row: change(row) if row["id"] == number else row


def boom(row: Row) -> Row:
    raise ValueError("no good")


BROKEN: dict[str, tuple[Callable[[Row], Any], str]] = {
    "changes a key": (lambda row: row | {"id": 77}, "made up a key: id = 77 was not in the batch"),
    "takes a key of another batch": (lambda row: row | {"id": 1}, "made up a key: id = 1 was not in the batch"),
    "changes the type of a key": (lambda row: row | {"id": "8"}, "made up a key: id = 8 was not in the batch"),
    "doubles a key": (lambda row: row | {"id": 7}, "returned id = 7 twice"),
    "loses a key": (lambda row: row | {"id": None}, "made up a key: id = None was not in the batch"),
    "adds a column": (lambda row: row | {"x": 1}, "wrong columns: with x, which it does not declare in adds"),
    "loses a column": (lambda row: {"id": row["id"], "at": 1}, "returned the wrong columns: without name"),
    "gives no dict": (lambda row: list(row), "returned list instead of a dict: ['id', 'name', 'at']"),
    "raises": (boom, "raised ValueError: no good, at the row with id = 8"),
    "trips over None": (lambda row: row | {"name": row["name"] + None}, "raised TypeError"),
}


def broken(lab: Lab, what: str, **mode: Any) -> None:
    change, expected = BROKEN[what]
    register("first", lambda row: row)
    register("second", on(8, change))
    run = lab.run(things(lab, "first", "second", **mode))
    assert run["status"] == "FAILED"
    assert "transform 'second' " in run["said"]
    assert expected in run["said"]


@pytest.mark.parametrize("what", list(BROKEN))
def test_a_broken_contract_is_named_and_nothing_is_written(lab: Lab, what: str) -> None:
    broken(lab, what)
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0


@pytest.mark.parametrize("what", ["changes a key", "raises"])
def test_a_broken_contract_is_named_and_its_batch_is_not_written(lab: Lab, what: str) -> None:
    broken(lab, what, **INCREMENTAL)
    assert lab.value("SELECT max(id) FROM analytics.mart") == 6


def test_a_transform_that_gives_nothing_at_all_is_named(lab: Lab) -> None:
    transform("silent")(lambda rows: None)
    assert (
        "transform 'silent' raised TypeError: 'NoneType' object is not iterable"
        in lab.run(things(lab, "silent"))["said"]
    )


def test_a_value_that_the_column_cannot_hold_is_explained(lab: Lab) -> None:
    register("mistype", on(8, lambda row: row | {"at": "soon"}))
    assert 'invalid input syntax for type integer: "soon"' in lab.run(things(lab, "mistype"))["said"]


def test_a_value_that_no_column_can_hold_is_explained(lab: Lab) -> None:
    register("mistype", on(8, lambda row: row | {"name": object()}))
    error = lab.run(things(lab, "mistype"))["said"]
    assert "cannot adapt type 'object'" in error


def test_the_line_that_went_wrong_is_named_and_how_it_came_to_it_is_in_the_log(lab: Lab) -> None:
    register("boom", boom)
    with capture_logs() as logged:
        said = lab.run(things(lab, "boom"))["said"]
    line = boom.__code__.co_firstlineno + 1
    assert re.search(rf"ValueError: no good, at the row with id = \d+, at \S*test_transforms.py:{line}\b", said)
    (told,) = [entry["exception"] for entry in logged if entry["event"] == "a transform went wrong"]
    assert f"line {line}, in boom" in told


def test_an_unknown_transform_is_explained(lab: Lab) -> None:
    error = lab.run(things(lab, "nowhere"))["said"]
    assert "there is no transform 'nowhere' (registered: " in error
    assert "VITRINA_TRANSFORM_MODULES" in error


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        ({"drops": ["id"]}, "drops key column id"),
        ({"drops": ["x"]}, "drops x, which is not there"),
        ({"adds": {"name": "text"}}, "adds name, which is there"),
        ({"adds": {"x": "no_such_type"}}, "no_such_type"),
    ],
)
def test_a_contract_that_does_not_fit_the_columns_is_refused(lab: Lab, contract: Any, expected: str) -> None:
    register("odd", lambda row: row | {"x": 1}, **contract)
    assert expected in lab.run(things(lab, "odd"))["said"]


def test_a_key_cannot_come_from_a_transform(lab: Lab) -> None:
    register("keyed", lambda row: row | {"k": row["id"]}, adds={"k": "integer"})
    error = lab.run(things(lab, "keyed", key=["k"]))["said"]
    assert error == "key column k is not in the query — a transform cannot add it"


@MODES
def test_a_key_that_the_query_gives_twice_is_named(lab: Lab, mode: dict[str, Any]) -> None:
    register("same", lambda row: row)
    pipeline = things(lab, "same", **mode)
    lab.sql("INSERT INTO content.thing VALUES (4)")
    error = lab.run(pipeline)["said"]
    assert "the query gives a key twice" in error
    assert "4" in error


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────

VALUES = {
    "numeric": ["1.00", "NaN", "-0.000", "12345678901234567890.123456789", "Infinity"],
    "float8": ["0.1", "-0", "NaN", "Infinity", "1e-300"],
    "float4": ["0.1", "-0", "NaN", "16777216"],
    "int8": ["9223372036854775807"],
    "bool": ["true", "false"],
    "text": ["", "\\N", "a\tb\nc\\", "ü", "NULL"],
    "char(5)": ["a", ""],
    '"char"': ["x"],
    "bytea": ["\\x", "\\x00ff5c0a"],
    "date": ["2024-02-29", "0001-01-01"],
    "timestamptz": ["2024-02-29 12:00:00.000001+03"],
    "timestamp": ["2024-02-29 12:00:00.000001"],
    "time": ["12:00:00.000001"],
    "timetz": ["12:00:00+03"],
    "interval": ["1 mon 2 days 03:04:05.000006", "24:00:00", "1 day", "-1 mon"],
    "uuid": ["00000000-0000-0000-0000-000000000001"],
    "json": ['{"a":  [1, 2.50, null], "a": 1}', '"x"', "1e2", '"\\u0041"'],
    "jsonb": ['{"a": [1, 2.50, null]}', '"x"', "12345678901234567890.123456789", "[]"],
    "text[]": ["{}", '{a,NULL,"NULL","",",{}"}', "{{a,b},{c,d}}"],
    "numeric[]": ["{1.00,NaN,NULL}"],
    "timestamptz[]": ["{2024-02-29 12:00:00.000001+03,NULL}"],
    "interval[]": ["{1 mon,24:00:00}"],
    "bool[]": ["{t,f,NULL}"],
    "bytea[]": ['{"\\\\x00ff"}'],
    "jsonb[]": ['{"{\\"a\\": 1}",NULL}'],
    "inet": ["10.0.0.1/24", "10.0.0.1", "::1"],
    "cidr": ["10.0.0.0/24"],
    "macaddr": ["08:00:2b:01:02:03"],
    "int4range": ["[1,5)", "empty", "(,)"],
    "tstzrange": ["[2024-01-01 00:00:00+00,)"],
    "int4multirange": ["{[1,5),[7,9)}", "{}"],
    "bit(3)": ["101"],
    "varbit": ["", "10101"],
    "point": ["(1,2.5)"],
    "money": ["$1.50"],
    "tsvector": ["'a':1 'b':2"],
    "public.mood": ["so, so"],
    "public.mood[]": ['{"so, so",NULL}'],
    "public.pair": ['(1,"a,b")'],
}


@MODES
def test_values_pass_through_unchanged(lab: Lab, mode: dict[str, Any]) -> None:
    register("same", lambda row: row)
    lab.sql("CREATE TYPE public.mood AS ENUM ('so, so'); CREATE TYPE public.pair AS (a int, b text)")
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(VALUES))
    lab.sql(f"CREATE TABLE content.every (id int GENERATED ALWAYS AS IDENTITY, {columns})")
    lab.sql("INSERT INTO content.every DEFAULT VALUES")
    for n, (type_, values) in enumerate(VALUES.items()):
        for value in values:
            lab.sql(f"INSERT INTO content.every (c{n}) VALUES (%s::text::{type_})", value)
    config = {"mode": "incremental", "incremental_key": "id"} if mode else {}
    select = "SELECT * FROM content.every"
    pipeline = lab.add(type="PYTHON", python_task="same", source_query=select, key=["id"], batch_size=10, **config)
    rows = 1 + sum(map(len, VALUES.values()))
    assert went(lab, pipeline) == (rows, 0)
    for n, type_ in enumerate(VALUES):
        image = f"SELECT id, c{n}::text FROM {{}} ORDER BY id"
        assert (type_, lab.sql(image.format("analytics.mart"))) == (type_, lab.sql(image.format("content.every")))
    assert went(lab, pipeline) == (0, 0)


@pytest.mark.parametrize("value", ["date 'infinity'", "time '24:00'", "timestamptz '0044-03-15 BC'"])
def test_a_value_without_a_python_form_is_explained(lab: Lab, value: str) -> None:
    register("same", lambda row: row)
    pipeline = lab.add(type="PYTHON", python_task="same", source_query=f"SELECT 1 AS id, {value} AS v", key=["id"])
    error = lab.run(pipeline)["said"]
    assert "a value has no Python form" in error
    assert "cast its column to text" in error


@pytest.mark.parametrize("type_", ["json", "jsonb"])
def test_a_json_value_may_be_anything_that_json_has(lab: Lab, type_: str) -> None:
    values = [{"a": [1, None, "ü"]}, [1, 2], "text", 1.5, True, [], {}, None, 7, ""]
    register("put", lambda row: row | {"doc": values[row["id"] - 1]}, adds={"doc": type_})
    went(lab, things(lab, "put"))
    assert lab.sql("SELECT doc FROM analytics.mart ORDER BY id") == [(value,) for value in values]


def test_a_json_value_that_a_transform_changes_is_written_as_changed(lab: Lab) -> None:
    register("change", lambda row: row | {"doc": row["doc"] | {"b": 1}})
    select = """SELECT 1 AS id, '{"a": 1.50}'::jsonb AS doc"""
    went(lab, lab.add(type="PYTHON", python_task="change", source_query=select, key=["id"]))
    assert lab.sql("SELECT doc FROM analytics.mart") == [({"a": 1.5, "b": 1},)]
