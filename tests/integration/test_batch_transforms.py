"""Transforms that take a batch at once, a dict of lists or an Arrow table: they keep the same promises as others."""

import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.integration.test_transforms import INCREMENTAL, MODES, VALUES, mart, things, went
from tests.support import Lab
from vitrina import transform
from vitrina.domain.errors import ConfigError
from vitrina.sql.describe import Column
from vitrina.transforms import REGISTRY
from vitrina.transforms.arrow import AsArrow
from vitrina.transforms.chain import load_transforms
from vitrina.transforms.keys import ExactKeys

FORMS = pytest.mark.parametrize("form", ["columns", "arrow"])


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    load_transforms([])  # what is installed stays
    known = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(known)


def register(name: str, form: Any, change: Callable[[Any], Any], **contract: Any) -> None:
    def apply(batch: Any) -> Any:
        return change(batch)

    apply.__qualname__ = name
    transform(name, batch=form, **contract)(apply)


def set_column(table: Any, name: str, values: Any) -> Any:
    return table.set_column(table.column_names.index(name), name, values)


def shout_columns(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return columns | {"name": [name.upper() for name in columns["name"]]}


def shout_arrow(table: Any) -> Any:
    return set_column(table, "name", pc.utf8_upper(table["name"]))


SHOUT = {"columns": shout_columns, "arrow": shout_arrow}


@MODES
@FORMS
def test_a_batch_is_changed_at_once(lab: Lab, form: str, mode: dict[str, Any]) -> None:
    register("shout", form, SHOUT[form])
    pipeline = things(lab, "shout", **mode)
    assert went(lab, pipeline) == (10, 0)
    assert mart(lab)[0] == (1, "NAME 1", 10)
    assert went(lab, pipeline) == (0, 0)


@MODES
def test_forms_may_follow_each_other(lab: Lab, mode: dict[str, Any]) -> None:
    def decade_of(table: Any) -> Any:
        return table.append_column("half", pc.divide(table["at"], 20)).append_column(
            "price", pc.cast(table["at"], pa.decimal128(12, 2))
        )

    def double(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
        assert all(type(price) is Decimal for price in columns["price"])
        assert all(type(half) is int for half in columns["half"])
        return columns | {"price": [price * 2 for price in columns["price"]]}

    register("rows", "rows", lambda rows: [row | {"name": row["name"] + "\t\\"} for row in rows])
    register("arrow", "arrow", decade_of, adds={"half": "int", "price": "DECIMAL (10, 2)"})
    register("columns", "columns", double)
    register("again", "arrow", lambda table: shout_arrow(table))
    register("last", "rows", lambda rows: [row | {"name": row["name"] + "!"} for row in rows])
    assert went(lab, things(lab, "rows", "arrow", "columns", "again", "last", **mode)) == (10, 0)
    assert mart(lab)[2] == (3, "NAME 3\t\\!", 30, 1, Decimal("60.00"))


def keep_columns(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    kept = [n for n, id_ in enumerate(columns["id"]) if id_ % 2]
    return {name: [values[n] for n in kept] for name, values in columns.items()}


LEAVE_OUT = {"columns": keep_columns, "arrow": lambda table: table.filter(pc.equal(pc.bit_wise_and(table["id"], 1), 1))}


@FORMS
def test_rows_that_are_left_out_leave_the_mart(lab: Lab, form: str) -> None:
    register("filter", form, lambda batch: batch)
    pipeline = things(lab, "filter")
    assert went(lab, pipeline) == (10, 0)
    register("filter", form, LEAVE_OUT[form])
    assert went(lab, pipeline) == (0, 5)
    assert [row[0] for row in mart(lab)] == [1, 3, 5, 7, 9]


@FORMS
def test_every_row_may_be_left_out_and_the_next_is_asked_with_none(lab: Lab, form: str) -> None:
    none = {"columns": lambda columns: {name: [] for name in columns}, "arrow": lambda table: table.slice(0, 0)}
    register("none", form, none[form])
    for other in ("rows", "columns", "arrow"):
        register(f"same_{other}", other, lambda batch: batch)
    assert went(lab, things(lab, "none", "same_arrow", "same_rows", "same_columns")) == (0, 0)


@MODES
@FORMS
def test_values_pass_through_unchanged(lab: Lab, form: str, mode: dict[str, Any]) -> None:
    register("same", form, lambda batch: batch)
    lab.sql("CREATE TYPE public.mood AS ENUM ('so, so'); CREATE TYPE public.pair AS (a int, b text)")
    types = VALUES | {"numeric(38,6)": ["1.500000", "-0.000001"], "numeric(50,2)": ["1.50"], "numeric(3,-2)": ["1200"]}
    columns = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(types))
    lab.sql(f"CREATE TABLE content.every (id int GENERATED ALWAYS AS IDENTITY, {columns})")
    lab.sql("INSERT INTO content.every DEFAULT VALUES")
    for n, (type_, values) in enumerate(types.items()):
        for value in values:
            lab.sql(f"INSERT INTO content.every (c{n}) VALUES (%s::text::{type_})", value)
    config = {"mode": "incremental", "incremental_key": "id"} if mode else {}
    select = "SELECT * FROM content.every"
    pipeline = lab.add(type="PYTHON", python_task="same", source_query=select, key=["id"], batch_size=10, **config)
    rows = 1 + sum(map(len, types.values()))
    assert went(lab, pipeline) == (rows, 0)
    for n, type_ in enumerate(types):
        image = f"SELECT id, c{n}::text FROM {{}} ORDER BY id"
        assert (type_, lab.sql(image.format("analytics.mart"))) == (type_, lab.sql(image.format("content.every")))
    assert went(lab, pipeline) == (0, 0)


@FORMS
def test_a_key_of_several_columns_is_kept(lab: Lab, form: str) -> None:
    register("same", form, lambda batch: batch)
    select = "SELECT n AS a, CASE WHEN n > 1 THEN 'x' || n END || E'\\t' AS b FROM generate_series(2, 6) n"
    pipeline = lab.add(type="PYTHON", python_task="same", source_query=select, key=["a", "b"], batch_size=2)
    assert went(lab, pipeline) == (5, 0)
    assert went(lab, pipeline) == (0, 0)


# ── broken contracts ─────────────────────────────────────────────────────────────────────────────────────────────


def boom(batch: Any) -> Any:
    ids = batch["id"] if isinstance(batch, dict) else batch["id"].to_pylist()
    if 8 in ids:
        raise ValueError("no good")
    return batch


def ids(change: Callable[[int], Any]) -> dict[str, Callable[[Any], Any]]:
    return {
        "columns": lambda columns: columns | {"id": [change(id_) for id_ in columns["id"]]},
        "arrow": lambda table: set_column(
            table, "id", pa.array([change(id_) for id_ in table["id"].to_pylist()], pa.int32())
        ),
    }


BROKEN: dict[str, tuple[dict[str, Callable[[Any], Any]], str]] = {
    "changes a key": (ids(lambda n: 77 if n == 8 else n), "made up a key: id = 77 was not in the batch"),
    "loses a key": (ids(lambda n: None if n == 8 else n), "made up a key: id = None was not in the batch"),
    "doubles a key": (ids(lambda n: 7 if n == 8 else n), "returned id = 7 twice"),
    "raises": ({"columns": boom, "arrow": boom}, "raised ValueError: no good, at the row with id = 8, at "),
    "gives none": (
        {"columns": lambda _: None, "arrow": lambda _: None},
        "returned NoneType instead of ",
    ),
    "loses a column": (
        {
            "columns": lambda columns: {name: v for name, v in columns.items() if name != "name"},
            "arrow": lambda table: table.drop_columns(["name"]),
        },
        "returned the wrong columns: without name",
    ),
    "adds a column": (
        {
            "columns": lambda columns: columns | {"x": columns["id"]},
            "arrow": lambda table: table.append_column("x", table["id"]),
        },
        "returned the wrong columns: with x, which it does not declare in adds",
    ),
}


@FORMS
@pytest.mark.parametrize("what", list(BROKEN))
def test_a_broken_contract_is_named_and_nothing_is_written(lab: Lab, what: str, form: str) -> None:
    change, expected = BROKEN[what]
    register("broken", form, change[form])
    run = lab.run(things(lab, "broken"))
    assert run["status"] == "FAILED"
    assert "transform 'broken' " in run["said"]
    assert expected in run["said"]
    assert lab.value("SELECT count(*) FROM analytics.mart") == 0


@FORMS
def test_a_broken_contract_ends_an_incremental_run_before_its_batch(lab: Lab, form: str) -> None:
    register("broken", form, BROKEN["changes a key"][0][form])
    assert lab.run(things(lab, "broken", **INCREMENTAL))["status"] == "FAILED"
    assert lab.value("SELECT max(id) FROM analytics.mart") == 6


def test_columns_of_different_lengths_are_named(lab: Lab) -> None:
    register("short", "columns", lambda columns: columns | {"name": columns["name"][1:]})
    assert "columns of different lengths: id has 3, name has 2, at has 3" in lab.run(things(lab, "short"))["said"]


def test_a_string_is_no_list(lab: Lab) -> None:
    register("text", "columns", lambda columns: columns | {"name": "abc"})
    assert "returned str for column name instead of a list: 'abc'" in lab.run(things(lab, "text"))["said"]


def test_a_column_that_is_given_twice_is_named(lab: Lab) -> None:
    register("twice", "arrow", lambda table: table.append_column("name", table["name"]))
    assert "returned a column twice: id, name, at, name" in lab.run(things(lab, "twice"))["said"]


@pytest.mark.parametrize("form", ["columns", "arrow"])
def test_a_key_that_the_query_gives_twice_is_named(lab: Lab, form: str) -> None:
    register("same", form, lambda batch: batch)
    pipeline = things(lab, "same")
    lab.sql("INSERT INTO content.thing VALUES (4), (4), (4)")
    assert "the query gives a key twice" in lab.run(pipeline)["said"]


def test_a_batch_of_another_kind_is_refused() -> None:
    with pytest.raises(Exception, match=r"has batch='pandas' — it is one of 'rows', 'columns', 'arrow'"):
        transform("odd", batch="pandas")  # type: ignore[arg-type]


def test_without_pyarrow_the_extra_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    register("same", "arrow", lambda table: table)
    pipeline = things(lab, "same")
    monkeypatch.setitem(sys.modules, "vitrina.transforms.arrow", None)
    assert "pyarrow is not installed — pip install 'vitrina[arrow]'" in lab.run(pipeline)["said"]


def test_columns_need_no_pyarrow(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    register("same", "columns", lambda columns: columns)
    monkeypatch.setitem(sys.modules, "vitrina.transforms.arrow", None)
    assert went(lab, things(lab, "same")) == (10, 0)


# ── types ────────────────────────────────────────────────────────────────────────────────────────────────────────

GIVEN = {  # Postgres type, what a function gives, what the mart has
    "integers of another size": ("bigint", pa.array([1, None], pa.int8()), ["1", None]),
    "a dictionary": ("text", pa.array(["a", None]).dictionary_encode(), ["a", None]),
    "large strings": ("text", pa.array(["a\\N\n", "\\N"], pa.large_string()), ["a\\N\n", "\\N"]),
    "all NULL": ("date", pa.nulls(2), [None, None]),
    "nanoseconds": ("timestamp", pa.array([1_000, None], pa.timestamp("ns")), ["1970-01-01 00:00:00.000001", None]),
    "another zone": (
        "timestamptz",
        pa.array([0, None], pa.timestamp("s", "Asia/Tokyo")),
        ["1970-01-01 00:00:00+00", None],
    ),
    "integers as float": ("double precision", pa.array([1, 2**53]), ["1", "9.007199254740992e+15"]),
    "single as double": ("float", pa.array([0.5, float("nan")], pa.float32()), ["0.5", "NaN"]),
    "decimals as numeric": ("numeric", pa.array([Decimal("1.500"), None]), ["1.500", None]),
    "integers as numeric": ("numeric", pa.array([1, -(2**63)]), ["1", str(-(2**63))]),
    "decimals of another scale": ("numeric(8,3)", pa.array([Decimal("1.5"), None]), ["1.500", None]),
    "integers as numeric of few digits": ("numeric(3,1)", pa.array([99, -1]), ["99.0", "-1.0"]),
    "bytes": ("bytea", pa.array([b"\x00\\", b""]), ["\\x005c", "\\x"]),
    "bytes, large": ("bytea", pa.array([b"\n", None], pa.large_binary()), ["\\x0a", None]),
    "text of a type that Arrow lacks": ("int4[]", pa.array(["{1,2}", None]), ["{1,2}", None]),
    "whole days": ("date", pa.array([86_400_000, None], pa.date64()), ["1970-01-02", None]),
}


@pytest.mark.parametrize("what", list(GIVEN))
def test_a_type_that_changes_no_value_is_taken(lab: Lab, what: str) -> None:
    type_, values, expected = GIVEN[what]
    register("give", "arrow", lambda table: table.append_column("x", values), adds={"x": type_})
    select = "SELECT n AS id FROM generate_series(1, 2) n"
    went(lab, lab.add(type="PYTHON", python_task="give", source_query=select, key=["id"]))
    assert [row[0] for row in lab.sql("SELECT x::text FROM analytics.mart ORDER BY id")] == expected


REFUSED = {
    "floats as integer": ("integer", pa.array([1.0, None]), "as double — give it as int32"),
    "floats as numeric": ("numeric(5,2)", pa.array([1.5, 2.5]), "as double — give it as decimal128(5, 2)"),
    "floats as any numeric": ("numeric", pa.array([1.5, 2.5]), "as double — give it as string, written as Postgres"),
    "double as single": ("real", pa.array([0.1, 0.2]), "as double — give it as float"),
    "too large": ("smallint", pa.array([1, 40_000]), "int64: Integer value 40000 not in range"),
    "not exact as float": ("float8", pa.array([1, 2**53 + 1]), "int64: Integer value 9007199254740993 not in range"),
    "digits lost": ("numeric(5,1)", pa.array([Decimal("1.25"), None]), "Rescaling Decimal"),
    "too many digits": ("numeric(3,1)", pa.array([99, 100]), "does not fit in precision"),
    "nanoseconds lost": ("timestamp", pa.array([1, None], pa.timestamp("ns")), "would lose data"),
    "no zone": (
        "timestamptz",
        pa.array([1, None], pa.timestamp("us")),
        "as timestamp[us] — give it as timestamp[us, tz",
    ),
    "a zone": ("timestamp", pa.array([1, None], pa.timestamp("us", "UTC")), "give it as timestamp[us]"),
    "a list": ("int4[]", pa.array([[1, 2], None]), "give it as string, written as Postgres takes it"),
    "a struct": ("jsonb", pa.array([{"a": 1}, None]), "give it as string, written as Postgres takes it"),
    "numbers as text": ("text", pa.array([1, 2]), "as int64 — give it as string"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_a_type_that_could_change_a_value_is_refused(lab: Lab, what: str) -> None:
    type_, values, expected = REFUSED[what]
    register("give", "arrow", lambda table: table.append_column("x", values), adds={"x": type_})
    select = "SELECT n AS id FROM generate_series(1, 2) n"
    said = lab.run(lab.add(type="PYTHON", python_task="give", source_query=select, key=["id"]))["said"]
    assert f"transform 'give' gave column x, which is {type_}, " in said
    assert expected in said


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("date", "infinity"),
        ("time", "24:00"),
        ("timestamptz", "0044-03-15 BC"),
        ("numeric(5,2)", "NaN"),
        ("date", "12000-01-01"),
    ],
)
def test_a_value_without_an_arrow_form_is_explained(lab: Lab, type_: str, value: str) -> None:
    register("same", "arrow", lambda table: table)
    select = "SELECT n AS id, v FROM generate_series(1, 3) n LEFT JOIN content.one ON n = 2"
    lab.sql(f"CREATE TABLE content.one (v {type_})")
    lab.sql(f"INSERT INTO content.one VALUES ('{value}')")
    error = lab.run(lab.add(type="PYTHON", python_task="same", source_query=select, key=["id"]))["said"]
    assert "a value in column v has no Arrow form" in error
    assert "cast its column to text" in error


def test_a_function_sees_exact_types(lab: Lab) -> None:
    seen: list[Any] = []

    def look(table: Any) -> Any:
        seen.append({field.name: str(field.type) for field in table.schema})
        return table

    register("look", "arrow", look)
    select = """SELECT 1 AS id, 1.50::numeric(5,2) AS a, 1.50 AS b, now() AS c, 'x'::varchar(3) AS d, '{}'::jsonb AS e,
                       true AS f, 1::float4 AS g, '{1}'::int[] AS h, 'x'::bytea AS i"""
    went(lab, lab.add(type="PYTHON", python_task="look", source_query=select, key=["id"]))
    types = ["int32", "decimal128(5, 2)", "string", "timestamp[us, tz=UTC]", "string", "string", "bool", "float"]
    assert list(seen[0].values()) == [*types, "string", "binary"]


def test_keys_that_are_written_alike_are_two() -> None:
    """A string is not the value that it spells."""
    keys = ExactKeys.of([["None", None, "1.5", 1.5, "(1, 2)", (1, 2)]])
    assert keys.repeated() is None
    assert ExactKeys.of([[None]]).made_up(ExactKeys.of([["None"]])) == 0


@pytest.mark.parametrize("given", [pa.array([1, 2]), pa.chunked_array([[1, 2]])])
def test_a_plain_column_is_no_table(given: Any) -> None:
    before = AsArrow.parsed(b"", (Column("id", "integer"),))
    with pytest.raises(ConfigError, match=r"returned .*Array, which is no table"):
        before.taken(given, before.columns)
