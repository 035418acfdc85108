"""What a Postgres type is in ClickHouse, and what is refused, with what to write instead."""

import re

import pytest

from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.sinks.clickhouse.shape import TypedShape, checked_type
from vitrina.sinks.clickhouse.tables import Names, Sheet, TypedColumn, literal, quote, split
from vitrina.sinks.clickhouse.types import Kind
from vitrina.sinks.documents.floats import write_float
from vitrina.sql.describe import Column


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("numeric(9,2)", "Nullable(Decimal(9, 2))"),
        ("numeric(76,0)", "Nullable(Decimal(76, 0))"),
        ("numeric(9,2)[]", "Array(Nullable(Decimal(9, 2)))"),
        ("timestamp(3) with time zone", "Nullable(DateTime64(6, 'UTC'))"),
        ("date", "Nullable(Date32)"),
        ("uuid", "Nullable(UUID)"),
        ("boolean", "Nullable(Bool)"),
        ("oid", "Nullable(UInt32)"),
        ("character varying(20)[]", "Array(Nullable(String))"),
        ("jsonb", "Nullable(String)"),
        ("content.mood", "Nullable(String)"),
    ],
)
def test_a_type_is_kept_exactly(type_: str, column: str) -> None:
    kind = Kind.of(type_)
    kind.check("c")
    assert kind.column(is_key=False) == column


@pytest.mark.parametrize(
    ("type_", "remedy"),
    [
        ("numeric", "CAST(c AS numeric(18, 2))"),
        ("numeric[]", "CAST(c AS numeric(18, 2)[])"),
        ("numeric(80,2)", "CAST(c AS numeric(18, 2))"),
        ("numeric(3,-2)", "CAST(c AS numeric(18, 2))"),
        ("numeric(2,4)", "CAST(c AS numeric(18, 2))"),
        ("bytea", "encode(c, 'hex')"),
        ("timestamp with time zone[]", "CAST(c AS text[])"),
        ("date[]", "CAST(c AS text[])"),
    ],
)
def test_what_would_not_be_exact_is_refused_with_what_to_write(type_: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=r"column c is") as caught:
        Kind.of(type_).check("c")
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("name", ["a.b", "vitrina_id", " "])
def test_a_name_that_would_mean_something_else_is_refused(name: str) -> None:
    pipeline = Pipeline.parse({"name": "m", "source_query": "SELECT 1", "target_table": "ch:a.m", "key": ["id"]})
    with pytest.raises(ConfigError, match=re.escape(repr(name))):
        TypedShape.of(resolve(pipeline), [Column("id", "integer"), Column(name, "text")])


@pytest.mark.parametrize(
    ("given", "kind", "written"),
    [
        ("1", "double precision", "1"),
        ("-0", "double precision", "-0"),
        ("0.1", "real", "0.1"),
        ("100000000000000000000", "double precision", "1e+20"),
        ("123456789012345680", "double precision", "1.2345678901234568e+17"),
        ("1000000", "real", "1e+06"),
        ("100000", "real", "100000"),
        ("123456.7", "double precision", "123456.7"),
        ("1e-7", "double precision", "1e-07"),
        ("0.0001", "double precision", "0.0001"),
        ("1e-05", "double precision", "1e-05"),
        ("-1.5e300", "double precision", "-1.5e+300"),
        ("36985894224507100", "double precision", "3.6985894224507104e+16"),
        ("nan", "double precision", '"NaN"'),
        ("-inf", "real", '"-Infinity"'),
    ],
)
def test_a_number_is_written_as_postgres_writes_it(given: str, kind: str, written: str) -> None:
    assert write_float(given, kind) == written


def test_a_deleted_row_is_told_by_its_id_alone() -> None:
    columns = (TypedColumn("a", "text"), TypedColumn("b", "integer"), TypedColumn("at", "date"))
    sheet = Sheet(columns, ("a", "b", "at"))
    assert sheet.order == ["a", "b"]
    assert sheet.tombstone(r"x\|y\\|7|2026-01-01") == {"a": "x|y\\", "b": "7"}
    assert Sheet(columns, ("a",)).tombstone("x|y\\") == {"a": "x|y\\"}
    assert split("||") == ["", "", ""]


def test_names_and_texts_are_quoted() -> None:
    assert quote("a`b\\") == "`a\\`b\\\\`"
    assert literal("it's \\") == "'it\\'s \\\\'"
    assert Names.of("cinema.m").sets_in("SELECT a FROM cinema.`m-000002` FINAL") == ["cinema.m-000002"]
    assert Names.of("cinema.m").sets_in("SELECT a FROM other.`m-000002` FINAL") == []


def test_a_check_sees_what_the_mart_has() -> None:
    types = {"jsonb": "text", "jsonb[]": "text[]", "numeric(9,2)": "numeric(9,2)", "int4range": "text", "date": "date"}
    assert {type_: checked_type(type_) for type_ in types} == types
