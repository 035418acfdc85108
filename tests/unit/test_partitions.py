"""How a mart in a lake is divided, as people write it and as Iceberg does it."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from vitrina.domain.errors import ConfigError
from vitrina.domain.partitions import PartitionField
from vitrina.domain.pipeline import Pipeline
from vitrina.sinks.lake.dividing import Divider, spec_of
from vitrina.sinks.lake.shape import TAKEN


def written(value: Any) -> tuple[str, ...]:
    return Pipeline.parse({"name": "mart", "partition_by": value}).partition_by


@pytest.mark.parametrize(
    ("value", "means"),
    [
        (["month(released)", "genre"], ("month(released)", "genre")),
        (["month(released)", "bucket(16", "id)", "genre"], ("month(released)", "bucket(16, id)", "genre")),
        ("Month( released ),bucket(16,id)", ("month(released)", "bucket(16, id)")),
        (['truncate(4, "a ""b"", (c)")'], ('truncate(4, "a ""b"", (c)")',)),
        (['"plain"', "identity(x)"], ("plain", "x")),
        (["été", "day(день)"], ("été", "day(день)")),
        ([], ()),
        ("", ()),
    ],
)
def test_it_is_read_as_people_and_yaml_write_it(value: Any, means: tuple[str, ...]) -> None:
    """In one spelling, which is read as itself."""
    assert written(value) == means
    assert written(means) == means
    assert [str(PartitionField.parse(text)) for text in means] == [*means]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a b", "'a b' is none of month(column)"),
        ("week(a)", "there are year, month"),
        ("bucket(id)", "bucket takes a number from 1 to 10,000 and a column"),
        ("bucket(0, id)", "bucket takes a number"),
        ("bucket(10001, id)", "bucket takes a number"),
        ("month(3, a)", "month takes a column and no number"),
        ("month(a", "none of month(column)"),
        ("bucket(99999999999999999999, a)", "none of"),
        (["a", ""], "'' is none of"),
        (["year(a)", "month(a)"], "column 'a' is named twice"),
        ([f"c{number}" for number in range(9)], "9 parts, and 8 are the most"),
        (3, "must be a list"),
        ([3], "must be text"),
    ],
)
def test_what_cannot_be_meant_is_named(value: Any, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        written(value)
    assert said in raised.value.message


OF_TYPE: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-(2**31) + 10_000, 2**31 - 1),  # those that no truncation takes below what an int holds
    "long": st.integers(-(2**63) + 10_000, 2**63 - 1),
    "decimal": st.integers(-(10**38) + 10_000, 10**38 - 1).map(lambda n: Decimal(f"{n}E-10")),
    "string": st.text(max_size=12),
    "uuid": st.uuids(),
    "binary": st.binary(max_size=12),
    "boolean": st.booleans(),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(),
    "timestamptz": st.datetimes(timezones=st.just(UTC)),
}
WHOLE = {"decimal": "decimal(38, 10)"}


def plain(value: Any) -> Any:
    """As Iceberg's manifests have it."""
    kinds: dict[type, Callable[[Any], Any]] = {
        date: lambda v: v.toordinal() - date(1970, 1, 1).toordinal(),
        datetime: lambda v: (v.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // (datetime.resolution),
        time: lambda v: ((v.hour * 60 + v.minute) * 60 + v.second) * 1_000_000 + v.microsecond,
        UUID: lambda v: v.bytes,
    }
    return kinds.get(type(value), lambda v: v)(value)


@pytest.mark.parametrize(("how", "kept"), [(how, kept) for how, types in TAKEN.items() for kept in types])
def test_each_row_belongs_where_iceberg_says(how: str, kept: str) -> None:
    """As pyiceberg's own functions have it for one value after the other; every row once, NULL apart."""
    width = {"bucket": 7, "truncate": 4}.get(how)
    schema = Schema(NestedField(1, "odd name", WHOLE.get(kept, kept), required=False))
    spec = spec_of(schema, [PartitionField(how, "odd name", width)])
    [field] = spec.fields
    one = field.transform.transform(schema.find_type("odd name"))
    target = schema_to_pyarrow(schema, include_field_ids=False)

    @given(st.lists(st.none() | OF_TYPE[kept], min_size=1, max_size=30))
    @settings(max_examples=60, deadline=None)
    def holds(values: list[Any]) -> None:
        given_ = [value.bytes if isinstance(value, UUID) else value for value in values]
        rows = pa.table({"odd name": pa.array(given_, target.field(0).type)}, schema=target)
        found = [*Divider(schema, spec).parts(rows)]
        assert sum(some.num_rows for _, some in found) == len(values)
        assert len({record for record, _ in found}) == len(found)
        for record, some in found:
            of_it = [UUID(bytes=v) if kept == "uuid" and isinstance(v, bytes) else v for v in some[0].to_pylist()]
            assert {plain(one(value)) for value in of_it} == {record[0]}

    holds()


def test_names_of_parts_are_those_of_no_column() -> None:
    names = ["at", "at_month", "at_month_", "odd name", "название", "genre"]
    schema = Schema(*(NestedField(n, name, "date", required=False) for n, name in enumerate(names, 1)))
    fields = map(PartitionField.parse, ["month(at)", '"odd name"', "название", "genre", "day(at_month)"])
    found = [field.name for field in spec_of(schema, [*fields]).fields]
    assert found == ["at_month__", "odd_name", "________", "genre", "at_month_day"]
