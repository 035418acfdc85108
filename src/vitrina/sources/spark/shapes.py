"""Types of Spark as those of Postgres, and the expressions that bring a column into a form that both have."""

from typing import Any, NamedTuple

from pyspark.sql import types as st

from vitrina.domain.errors import ConfigError
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.sources.arrow.forms import ELEMENTS
from vitrina.sources.arrow.names import checked
from vitrina.sources.arrow.reader import Shaped
from vitrina.sources.arrow.text import wrapped
from vitrina.sql.describe import Column, check_names

SAME = {
    st.BooleanType: "boolean",
    st.ByteType: "smallint",
    st.ShortType: "smallint",
    st.IntegerType: "integer",
    st.LongType: "bigint",
    st.FloatType: "real",
    st.DoubleType: "double precision",
    st.StringType: "text",
    st.VarcharType: "text",
    st.CharType: "text",
    st.BinaryType: "bytea",
    st.DateType: "date",
    st.TimestampType: "timestamp with time zone",
    st.TimestampNTZType: "timestamp without time zone",
    st.DayTimeIntervalType: "interval",
}
NESTED = st.ArrayType | st.MapType | st.StructType
JSON = "to_json({x}, map('ignoreNullFields', 'false'))"


class Form(NamedTuple):
    """A type of Postgres, and the expression over the column x that gives values of it; none: the column itself."""

    type: str
    expression: str = "{x}"


def shape(select: str, schema: st.StructType) -> Shaped:
    """A ConfigError for a column that Postgres cannot have."""
    forms = [_form(field.name, field.dataType) for field in schema.fields]
    columns = [Column(checked(field.name), form.type) for field, form in zip(schema.fields, forms, strict=True)]
    check_names(columns)
    given = [f"c{number}" for number in range(len(forms))]
    shown = ", ".join(f"{form.expression.format(x=x)} AS {x}" for x, form in zip(given, forms, strict=True))
    return Shaped(f"SELECT {shown} FROM {wrapped(select)} AS vitrina_q ({', '.join(given)})", columns)


def _form(name: str, type_: st.DataType) -> Form:
    if plain := _plain(type_):
        return Form(plain)
    if isinstance(type_, st.ArrayType) and (element := _plain(type_.elementType)) and _fits(element):
        return Form(f"{element}[]")
    if isinstance(type_, NESTED):
        return Form("jsonb", JSON)
    raise ConfigError.of(SourceRefusal.SPARK_TYPE, column=name, type=type_.simpleString())


def _plain(type_: Any) -> str:
    if isinstance(type_, st.DecimalType):
        return f"numeric({type_.precision},{type_.scale})"
    return SAME.get(type(type_), "")


def _fits(element: str) -> bool:
    return element in ELEMENTS or element.startswith("numeric")
