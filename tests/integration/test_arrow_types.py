"""Values on their way from Arrow to Postgres: the same, or refused by the name of their column."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.sources.arrow.encoding import blocks
from vitrina.sources.arrow.values import text_batches
from vitrina.sql.describe import Column

AGAIN = settings(max_examples=25, deadline=None)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    exact = Context(prec=60)
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, exact))


ROUND: list[tuple[str, Any, st.SearchStrategy[Any]]] = [
    ("boolean", pa.bool_(), st.booleans()),
    ("smallint", pa.int8(), st.integers(-128, 127)),
    ("smallint", pa.uint8(), st.integers(0, 255)),
    ("integer", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    ("integer", pa.uint16(), st.integers(0, 2**16 - 1)),
    ("bigint", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("bigint", pa.uint32(), st.integers(0, 2**32 - 1)),
    ("numeric(20,0)", pa.uint64(), st.integers(0, 2**64 - 1)),
    ("numeric(38,10)", pa.decimal128(38, 10), decimals(38, 10)),
    ("numeric(5,5)", pa.decimal128(5, 5), decimals(5, 5)),
    ("numeric(38,38)", pa.decimal128(38, 38), decimals(38, 38)),
    ("numeric(38,0)", pa.decimal256(60, 0), decimals(38, 0)),
    ("real", pa.float32(), st.floats(width=32)),
    ("double precision", pa.float64(), st.floats()),
    ("text", pa.string(), TEXT),
    ("text", pa.large_string(), TEXT),
    ("text", pa.dictionary(pa.int32(), pa.string()), TEXT),
    ("bytea", pa.binary(), st.binary()),
    ("uuid", pa.uuid(), st.uuids()),
    ("date", pa.date32(), st.dates()),
    ("time without time zone", pa.time64("us"), st.times()),
    ("timestamp without time zone", pa.timestamp("us"), MOMENTS),
    ("timestamp with time zone", pa.timestamp("us", "Europe/Moscow"), MOMENTS.map(lambda at: at.replace(tzinfo=UTC))),
    ("interval", pa.duration("us"), st.timedeltas(-timedelta(days=10**8), timedelta(days=10**8))),
    ("integer[]", pa.list_(pa.int32()), st.lists(st.none() | st.integers(-(2**31), 2**31 - 1))),
    ("text[]", pa.list_(pa.string()), st.lists(st.none() | TEXT)),
    ("numeric(38,10)[]", pa.list_(pa.decimal128(38, 10)), st.lists(st.none() | decimals(38, 10))),
    ("timestamp without time zone[]", pa.list_(pa.timestamp("us")), st.lists(st.none() | MOMENTS)),
]  # fmt: skip


@pytest.fixture(scope="module")
def db() -> Iterator[psycopg.Connection[Any]]:
    with Lab.open("vitrina_template") as lab, psycopg.connect(lab.conninfo) as conn:
        yield conn


def by_bytes(conn: psycopg.Connection[Any], column: Column, values: Any) -> None:
    conn.execute(sql.SQL("CREATE TEMP TABLE came ({} {})").format(column.identifier, column.sql_type))
    with conn.cursor().copy("COPY came FROM STDIN (FORMAT binary)") as copy:
        for block in blocks([pa.RecordBatch.from_arrays([values], ["x"])] * 2, [column]):
            copy.write(block)


def by_text(conn: psycopg.Connection[Any], column: Column, values: Any) -> None:
    conn.execute(sql.SQL("CREATE TEMP TABLE said ({} {})").format(column.identifier, column.sql_type))
    with conn.cursor().copy("COPY said FROM STDIN") as copy:
        for batch in text_batches(iter([pa.RecordBatch.from_arrays([values], ["x"])] * 2), [column], 3):
            copy.write(batch.text)


def test_a_whole_number_that_no_float_can_hold_is_text_of_all_its_digits() -> None:
    values = pa.array([2**53 + 1, 2**64 - 1, None], pa.uint64())
    (batch,) = text_batches(iter([pa.RecordBatch.from_arrays([values], ["x"])]), [Column("x", "numeric(20,0)")], 3)
    assert batch.text == b"9007199254740993\n18446744073709551615\n\\N\n"


def sent(value: Any) -> Any:
    """As psycopg is to send it: of an interval, the days are hours in Arrow."""
    return f"{value // timedelta(microseconds=1)} microseconds" if isinstance(value, timedelta) else value


@pytest.mark.parametrize(("type_", "arrow", "values"), ROUND, ids=[f"{t}-{a}" for t, a, _ in ROUND])
def test_a_value_arrives_as_it_is_and_as_text_it_is_the_same(
    db: psycopg.Connection[Any], type_: str, arrow: Any, values: st.SearchStrategy[Any]
) -> None:
    column = Column("x", type_)

    @AGAIN
    @given(st.lists(st.none() | values, max_size=20))
    def holds(some: Sequence[Any]) -> None:
        given_ = (
            pa.array(some, arrow)
            if not pa.types.is_dictionary(arrow)
            else pa.array(some, pa.string()).dictionary_encode()
        )
        with db.transaction(force_rollback=True):
            by_bytes(db, column, given_)
            by_text(db, column, given_)
            db.execute(sql.SQL("CREATE TEMP TABLE sent (x {})").format(column.sql_type))
            with db.cursor().copy("COPY sent FROM STDIN") as copy:
                for value in [*some, *some]:
                    copy.write_row([sent(value)])
            for other in ("said", "sent"):
                text = sql.SQL("SELECT count(*) FROM (SELECT x, row_number() OVER () AS n FROM came) a"
                               " FULL JOIN (SELECT x, row_number() OVER () AS n FROM {}) b USING (n)"
                               " WHERE record_image_ne(ROW(a.x), ROW(b.x))")  # fmt: skip
                assert db.execute(text.format(sql.Identifier(other))).fetchall() == [(0,)], other

    holds()


@pytest.mark.parametrize("write", [by_bytes, by_text])
def test_what_is_infinite_stays_so(db: psycopg.Connection[Any], write: Any) -> None:
    table = {by_bytes: "came", by_text: "said"}[write]
    days = pa.array([2**31 - 1, -(2**31 - 1), -719162, None, 0], pa.int32()).cast(pa.date32())
    times = pa.array([2**63 - 1, -(2**63 - 1), -1, None], pa.int64()).cast(pa.timestamp("us"))
    for type_, values, told in [
        ("date", days, ["infinity", "-infinity", "0001-01-01", None, "1970-01-01"]),
        ("timestamp without time zone", times, ["infinity", "-infinity", "1969-12-31 23:59:59.999999", None]),
        ("timestamp with time zone", times.cast(pa.timestamp("us", "UTC")),
         ["infinity", "-infinity", "1969-12-31 23:59:59.999999+00", None]),
    ]:  # fmt: skip
        with db.transaction(force_rollback=True):
            db.execute("SET LOCAL timezone = 'UTC'")
            write(db, Column("x", type_), values)
            rows = db.execute(sql.SQL("SELECT x::text FROM {}").format(sql.Identifier(table))).fetchall()
            assert [text for (text,) in rows] == told * 2


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("timestamp without time zone", pa.array([1], pa.timestamp("ns"))),
        ("time without time zone", pa.array([1], pa.time64("ns"))),
        ("numeric(38,0)", pa.array([Decimal(10**38)], pa.decimal256(60, 0))),
        ("timestamp without time zone", pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))),
        ("integer", pa.array([2**31], pa.int64())),
        ("interval", pa.array([(1, 2, 3)], pa.month_day_nano_interval())),
    ],
)
def test_what_cannot_be_held_is_refused_by_its_column(type_: str, values: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1] * len(values)), values], ["id", "x"])
    with pytest.raises(ConfigError, match="column at is"):
        list(blocks([batch], [Column("id", "bigint"), Column("at", type_)]))
    with pytest.raises(ConfigError, match="column at is"):
        list(text_batches(iter([batch]), [Column("id", "bigint"), Column("at", type_)], 10))


def test_a_fraction_that_is_none_is_not_lost() -> None:
    values = pa.array([1_000], pa.timestamp("ns"))
    assert b"".join(blocks([pa.RecordBatch.from_arrays([values], ["x"])], [Column("x", "timestamp without time zone")]))


def test_times_of_day_and_days_are_python_s(db: psycopg.Connection[Any]) -> None:
    """Beside the property: figures that a person can check."""
    columns = {
        "date": date(1, 1, 1),
        "time without time zone": time(23, 59, 59, 999999),
        "interval": timedelta(days=-1),
    }
    for type_, value in columns.items():
        with db.transaction(force_rollback=True):
            by_bytes(db, Column("x", type_), pa.array([value]))
            assert db.execute("SELECT x FROM came LIMIT 1").fetchall() == [(value,)]


FOREIGN_NAN = pa.array([-(2**51) + 1, 0], pa.int64()).view(pa.float64())
ARRAYS = [
    pa.ListArray.from_arrays([0, 1, 1, 2], FOREIGN_NAN),
    pa.ListArray.from_arrays(pa.array([0, 2, 3, 3, 4], pa.int32()), pa.concat_arrays([FOREIGN_NAN, FOREIGN_NAN]))[1:],
    pa.LargeListArray.from_arrays([0, 1, 1, 2], FOREIGN_NAN),
    pa.FixedSizeListArray.from_arrays(FOREIGN_NAN, 1),
    pa.array([None, [float("nan"), None], []], pa.list_(pa.float64())),
    pa.array([None, None], pa.list_(pa.float64())),
    pa.array([], pa.list_(pa.float64())),
]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: str(len(values)))
def test_what_is_no_number_is_one_in_arrays_too(db: psycopg.Connection[Any], values: Any) -> None:
    with db.transaction(force_rollback=True):
        by_bytes(db, Column("x", "double precision[]"), values)
        by_text(db, Column("x", "double precision[]"), values)
        texts = [None if row is None else "{" + ",".join(map(told, row)) + "}" for row in values.to_pylist()]
        assert [row for (row,) in db.execute("SELECT x::text FROM came")] == texts * 2
        pairs = """SELECT count(*) FROM (SELECT x, row_number() OVER () AS n FROM came) a
                   FULL JOIN (SELECT x, row_number() OVER () AS n FROM said) b USING (n)
                   WHERE record_image_ne(ROW(a.x), ROW(b.x))"""
        assert db.execute(pairs).fetchall() == [(0,)]


def told(number: float | None) -> str:
    return "NULL" if number is None else "NaN" if number != number else f"{number:g}"


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63 - 1)])
@pytest.mark.parametrize("type_", ["timestamp without time zone[]", "date[]"])
def test_what_is_infinite_is_refused_in_arrays(type_: str, count: int) -> None:
    moments = pa.array([count], pa.int64()).cast(pa.timestamp("us"))
    days = pa.array([count // 2**32 + (count < 0)], pa.int32()).cast(pa.date32())
    values = pa.ListArray.from_arrays([0, 1], days if type_ == "date[]" else moments)
    for write in (blocks, lambda batches, columns: text_batches(iter(batches), columns, 10)):
        with pytest.raises(ConfigError, match=r"column at is .*infinite"):
            list(write([pa.RecordBatch.from_arrays([values], ["x"])], [Column("at", type_)]))


def test_what_stands_behind_a_null_is_not_looked_at() -> None:
    hidden = pa.array([2**63 - 1], pa.int64()).cast(pa.timestamp("us"))
    values = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), hidden, mask=pa.array([True]))
    batch = pa.RecordBatch.from_arrays([values], ["x"])
    assert b"".join(blocks([batch], [Column("x", "timestamp without time zone[]")]))
