"""Types of DuckDB as those of Postgres, and the expressions that bring a column into a form that both have."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from vitrina.domain.errors import ConfigError
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.sources.arrow.forms import ELEMENTS
from vitrina.sources.arrow.names import checked
from vitrina.sources.arrow.reader import Shaped
from vitrina.sources.arrow.text import wrapped
from vitrina.sql.describe import Column, check_names

SAME = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "integer": "integer",
    "bigint": "bigint",
    "utinyint": "smallint",
    "usmallint": "integer",
    "uinteger": "bigint",
    "ubigint": "numeric(20,0)",
    "float": "real",
    "double": "double precision",
    "varchar": "text",
    "blob": "bytea",
    "uuid": "uuid",
    "date": "date",
    "time": "time without time zone",
    "timestamp": "timestamp without time zone",
    "timestamp_s": "timestamp without time zone",
    "timestamp_ms": "timestamp without time zone",
    "timestamp_ns": "timestamp without time zone",  # a fraction of a microsecond is refused where one comes
    "timestamp with time zone": "timestamp with time zone",
}
WIDE = {"hugeint", "uhugeint"}  # what sum() of whole numbers gives
NESTED = {"list", "array", "struct", "map"}
REMEDIES = {
    "interval": "write it as a number, such as epoch(x), or CAST(x AS VARCHAR)",
    "time with time zone": "CAST(x AS TIME), or CAST(x AS VARCHAR)",
    "null": "cast it: CAST(NULL AS INTEGER)",
}


class Form(NamedTuple):
    """A type of Postgres, and the expression over the column x that gives values of it; none: the column itself."""

    type: str
    expression: str = ""


def shape(select: str, names: Iterable[str], types: Iterable[Any]) -> Shaped:
    """A ConfigError for a column that Postgres cannot have."""
    forms = [(name, _form(name, type_)) for name, type_ in zip(names, types, strict=True)]
    columns = [Column(checked(name), form.type) for name, form in forms]
    check_names(columns)
    if not any(form.expression for _, form in forms):
        return Shaped(select, columns)
    given = [f"c{number}" for number in range(len(forms))]  # names may differ in nothing but case, which DuckDB ignores
    shown = ", ".join(
        form.expression.format(x=x) if form.expression else x for x, (_, form) in zip(given, forms, strict=True)
    )
    return Shaped(f"SELECT {shown} FROM {wrapped(select)} AS vitrina_q ({', '.join(given)})", columns)


def _form(name: str, type_: Any) -> Form:
    if str(type_) == "JSON":
        return Form("jsonb")
    if type_.id in SAME:
        return Form(SAME[type_.id])
    if type_.id == "decimal":
        return Form(_numeric(type_))
    if type_.id in WIDE:
        return Form("numeric(38,0)", "CAST({x} AS DECIMAL(38,0))")
    if type_.id == "enum":
        return Form("text", "CAST({x} AS VARCHAR)")
    if type_.id in NESTED:
        return _nested(type_)
    raise ConfigError.of(
        SourceRefusal.DUCKDB_TYPE, column=name, type=str(type_), way=REMEDIES.get(type_.id, "CAST(x AS VARCHAR)")
    )


def _nested(type_: Any) -> Form:
    """A list of plain values is an array, everything else a document."""
    element = dict(type_.children).get("child")
    if element is not None and type_.id in ("list", "array") and (plain := _element(element)):
        return Form(f"{plain}[]", f"CAST({{x}} AS {element}[])" if type_.id == "array" else "")
    return Form("jsonb", "CAST(to_json({x}) AS VARCHAR)")


def _element(type_: Any) -> str:
    """Of an array; none: it is no plain value that an array may hold."""
    plain = _numeric(type_) if type_.id == "decimal" else SAME.get(type_.id, "")
    is_known = plain in ELEMENTS or type_.id == "decimal"
    return plain if is_known and str(type_) != "JSON" else ""


def _numeric(type_: Any) -> str:
    sizes = dict(type_.children)
    return f"numeric({sizes['precision']},{sizes['scale']})"
