"""How a search engine keeps what a Postgres type becomes in a document."""

from typing import Any

from vitrina.sinks.documents.types import FieldType

KEYWORD = {"type": "keyword", "ignore_above": 8191}  # longer ones exceed what Lucene takes as one term
TEXT = {"type": "text", "fields": {"keyword": KEYWORD}}
OBJECT = {"type": "object", "dynamic": "true"}
NESTED = {"type": "nested", "dynamic": "true"}

MAPPINGS: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "smallint": {"type": "short"},
    "integer": {"type": "integer"},
    "bigint": {"type": "long"},
    "oid": {"type": "long"},
    "real": {"type": "float"},
    "double precision": {"type": "double"},
    "numeric": {"type": "double"},
    "text": TEXT,
    "character varying": TEXT,
    "character": TEXT,
    "citext": TEXT,
    "uuid": KEYWORD,
    "name": KEYWORD,
    "interval": KEYWORD,
    "time without time zone": KEYWORD,
    "time with time zone": KEYWORD,
    "inet": KEYWORD,
    "cidr": KEYWORD,
    "date": {"type": "date"},
    "timestamp without time zone": {"type": "date"},
    "timestamp with time zone": {"type": "date"},
    "json": OBJECT,
    "jsonb": OBJECT,
    "bytea": {"type": "binary"},
    "int4range": {"type": "integer_range"},
    "int8range": {"type": "long_range"},
    "numrange": {"type": "double_range"},
    "tsrange": {"type": "date_range"},
    "tstzrange": {"type": "date_range"},
    "daterange": {"type": "date_range"},
    "int4multirange": {"type": "integer_range"},
    "int8multirange": {"type": "long_range"},
    "nummultirange": {"type": "double_range"},
    "tsmultirange": {"type": "date_range"},
    "tstzmultirange": {"type": "date_range"},
    "datemultirange": {"type": "date_range"},
}


def mapping_of(type_: str) -> dict[str, Any]:
    """Of a type as format_type writes it; one that we do not know is matched as a whole, as Postgres writes it."""
    return MAPPINGS.get(FieldType.of(type_).element, KEYWORD)
