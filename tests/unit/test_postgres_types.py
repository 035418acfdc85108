"""Types as people write them in `adds`, by the names of the server."""

import pytest

from vitrina.transforms.types import canonical, digits, oid_of


@pytest.mark.parametrize(
    ("written", "name", "sizes", "oid"),
    [
        ("int", "integer", None, 23),
        ("INTEGER", "integer", None, 23),
        ("int8", "bigint", None, 20),
        ("Decimal ( 10 , 2 )", "numeric", (10, 2), 1700),
        ("numeric(5)", "numeric", (5, 0), 1700),
        ("numeric(3,-2)", "numeric", (3, -2), 1700),
        ("numeric", "numeric", None, 1700),
        ("varchar(20)", "character varying", None, 1043),
        ("timestamp(3) without time zone", "timestamp without time zone", None, 1114),
        ("timestamp(3)  with  time zone", "timestamp with time zone", None, 1184),
        ("timestamptz", "timestamp with time zone", None, 1184),
        ("pg_catalog.int4", "integer", None, 23),
        ("numeric(5,2)[]", "numeric[]", None, 1231),
        ("text[3]", "text[]", None, 1009),
        ('"char"', '"char"', None, 18),
        ("float", "double precision", None, 701),
        ("public.mood", "public.mood", None, 0),
        ("", "", None, 0),
    ],
)
def test_a_type_is_known_by_its_name(written: str, name: str, sizes: tuple[int, int] | None, oid: int) -> None:
    assert (canonical(written), digits(written), oid_of(written)) == (name, sizes, oid)
