"""Columns of Arrow in the forms that Postgres has for them: exactly, or refused with the column's name.

A form is the Arrow type whose bytes, put the other way round, are those of the Postgres type in a binary COPY.
"""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vitrina.domain.errors import ConfigError
from vitrina.sql.describe import Column

FORMS = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "text": pa.string(),
    "json": pa.string(),
    "jsonb": pa.string(),
    "bytea": pa.binary(),
    "uuid": pa.binary(16),
    "date": pa.date32(),
    "time without time zone": pa.time64("us"),
    "timestamp without time zone": pa.timestamp("us"),
    "timestamp with time zone": pa.timestamp("us", "UTC"),
    "interval": pa.duration("us"),
}
# What arrays may hold: their binary form names the type of their elements, and the encoder knows these names.
ELEMENTS = FORMS.keys() - {"json", "jsonb", "bytea", "uuid", "timestamp with time zone", "interval"}
NUMERIC = re.compile(r"numeric(?:\((\d+),(-?\d+)\))?")
LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
# Infinite moments are the ends of the whole numbers that count them, here and in Postgres, which counts from 2000 on.
SINCE_2000 = {pa.int32(): 10_957, pa.int64(): 946_684_800_000_000}
ENDS = {pa.int32(): 2**31 - 1, pa.int64(): 2**63 - 1}


def form_of(type_: str, given: Any) -> Any:
    """The form of a Postgres type, for values that are given in a type of Arrow."""
    if type_.endswith("[]"):
        return pa.list_(form_of(type_.removesuffix("[]"), given.value_type))
    if NUMERIC.fullmatch(type_):
        exact = pa.types.is_decimal128(given) or given == pa.uint64()
        return given if exact else pa.decimal128(38, given.scale if pa.types.is_decimal(given) else 0)
    return given if given in LARGE and LARGE[given] == FORMS[type_] else FORMS[type_]


def fitted(column: Column, values: Any) -> Any:
    """A column in its form. Nothing is rounded or cut."""
    plain = values.storage if isinstance(values, pa.ExtensionArray) else values
    plain = plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain
    form = form_of(column.type, plain.type)
    try:
        found = plain if plain.type == form else plain.cast(form)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        said = f"column {column.name} is {column.type}, which cannot hold its values: {error}"
        raise ConfigError(said, "convert it in the query") from error
    if pa.types.is_list(form):
        return _of_elements(column, found)
    if pa.types.is_floating(form):
        return _one_nan(found)
    return _counted(found) if pa.types.is_timestamp(form) or pa.types.is_date(form) else found


def _of_elements(column: Column, lists: Any) -> Any:
    """Their elements in their form. An array names the type of its elements, so infinite moments cannot be counted."""
    given = lists.flatten()  # without what stands behind NULL
    elements = fitted(Column(column.name, column.type.removesuffix("[]")), given)
    if elements.type != given.type:
        said = f"column {column.name} is {column.type}, and has an infinite moment, which arrays of a lake cannot hold"
        raise ConfigError(said, "filter it out, or make it NULL")
    if elements is given:
        return lists
    ends = pc.cumulative_sum(pc.fill_null(lists.value_lengths(), 0))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, elements, mask=lists.is_null())


def _one_nan(numbers: Any) -> Any:
    """There are many patterns of bits for what is no number, and Postgres writes one."""
    wrong = pc.is_nan(numbers)
    return pc.if_else(wrong, pa.scalar(float("nan"), numbers.type), numbers) if pc.any(wrong).as_py() else numbers


def _counted(moments: Any) -> Any:
    """The same; with infinite ones among them, as Postgres counts."""
    number = pa.int32() if pa.types.is_date(moments.type) else pa.int64()
    counts, end = moments.view(number), ENDS[number]
    least, most = pc.min_max(counts).values()
    if least.as_py() is None or (most.as_py() < end and least.as_py() > -end):
        return moments
    if least.as_py() < -end:
        raise ConfigError("a date or a time is before all that can be counted", "filter it out")
    finite = pc.if_else(pc.equal(pc.abs(counts), end), pa.scalar(0, number), counts)
    since = pc.subtract_checked(finite, pa.scalar(SINCE_2000[number], number))
    early = pc.if_else(pc.equal(counts, -end), pa.scalar(-end - 1, number), since)
    return pc.if_else(pc.equal(counts, end), pa.scalar(end, number), early)
