"""Which types a mart may have: known to the warehouse, and handled by nobody's own code."""

import re
from collections.abc import Sequence

from vitrina.domain.errors import ConfigError
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.meta.db import Connection, fetch_all, queries
from vitrina.sql.describe import FIRST_USER_OID, Column

SQL = queries("marts")
FIXED_LENGTH = re.compile(r"(character|bit)\(\d+\)")


def check_types(conn: Connection, columns: Sequence[Column]) -> None:
    """A ConfigError for a type that the warehouse lacks, or whose handling would run code that anybody may define."""
    for column in columns:
        if not column.builtin and not fits(conn, column.type, column.type):
            raise ConfigError.of(MartRefusal.TYPE_NOT_THERE, column=column.name, type=column.type)
        if not column.builtin:
            refuse_foreign_code(conn, column, column.type)


def fits(conn: Connection, query_type: str, mart_type: str) -> bool:
    """Whether values of one type can be assigned to another, none cut."""
    if FIXED_LENGTH.match(mart_type) and query_type != mart_type:
        return False
    rows = fetch_all(conn, SQL["can_assign"], {"from": query_type, "to": mart_type})
    return any(row["yes"] for row in rows)  # no row: only the source has such a type


def refuse_foreign_code(conn: Connection, column: Column, mart_type: str) -> None:
    """What converts or compares values runs in statements that write: never a function that anybody could define."""
    types = {"from": column.type, "to": mart_type, "first_user_oid": FIRST_USER_OID}
    for row in fetch_all(conn, SQL["foreign_code"], types):
        raise ConfigError.of(
            MartRefusal.TYPE_OF_FOREIGN_CODE, column=column.name, type=column.type, function=row["function"]
        )
