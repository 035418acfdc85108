"""A stamp of what a query depends on: the versions of the catalogue's rows, in one number for each sort.

It is another after any change of them, even after one that was taken back; and now and then after one that means
nothing, such as GRANT: then `dependencies.look` tells. Settings and the versions of collations are not in it: a session
keeps the ones, and the others are of files that no transaction changes.
"""

from collections.abc import Iterator, Sequence
from typing import Any, LiteralString

from psycopg import sql

from vitrina.meta.db import Connection, translated
from vitrina.sql.dependencies import Needs
from vitrina.sql.describe import FIRST_USER_OID

# Where the catalogue keeps each sort of thing, and the column that says whose row it is.
ROWS: dict[str, Sequence[tuple[LiteralString, LiteralString]]] = {
    "relations": (("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_index", "indrelid"),
                  ("pg_inherits", "inhparent")),
    "views": (("pg_rewrite", "ev_class"),),
    "functions": (("pg_proc", "oid"), ("pg_aggregate", "aggfnoid")),
    "operators": (("pg_operator", "oid"), ("pg_amop", "amopopr")),
    "types": (("pg_type", "oid"), ("pg_enum", "enumtypid"), ("pg_constraint", "contypid")),
    "names": (("pg_proc", "proname"), ("pg_operator", "oprname")),
}  # fmt: skip
VERSIONS = sql.SQL("pg_catalog.sum(pg_catalog.hash_record_extended(ROW(t.ctid, t.xmin), 0))")
EACH = "(SELECT {} FROM pg_catalog.{} AS t WHERE {})"
# pg_roles shows no versions: who is made exempt and back within a slice is not noticed.
RIGHTS = """(SELECT pg_catalog.string_agg(pg_catalog.concat(r.oid, r.rolsuper, r.rolbypassrls), ',' ORDER BY r.oid)
             FROM pg_catalog.pg_roles AS r WHERE r.oid = ANY ({}))"""
MEMBERS = """(WITH RECURSIVE up (id) AS (
                  SELECT pg_catalog.unnest({})
                  UNION SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN up ON m.member = up.id)
              SELECT {} FROM pg_catalog.pg_auth_members AS t JOIN up ON t.member = up.id)"""


def stamp_query(needs: Needs) -> sql.Composed:
    """For the stamp of these things; only of sorts that there are, since planning it is most of what it costs."""
    return sql.SQL("SELECT pg_catalog.concat_ws(',', {}) AS stamp").format(sql.SQL(", ").join(_stamps(needs)))


def take_stamp(conn: Connection, query: sql.Composed) -> str:
    """One short statement, in a transaction of its own: it sees everything that was committed before."""
    with translated():
        row = conn.execute(query).fetchone()
    assert row is not None
    return str(row["stamp"])


def _stamps(needs: Needs) -> Iterator[sql.Composed]:
    for kind, places in ROWS.items():
        ids = getattr(needs, kind)
        for table, column in places if ids else ():
            array = _array(ids, "name[]" if kind == "names" else "oid[]")
            yield _each(table, sql.SQL("t.{} = ANY ({})").format(sql.Identifier(column), array))
    yield _each("pg_cast", sql.SQL("t.oid >= {}").format(FIRST_USER_OID))
    if needs.roles:
        roles = _array(needs.roles, "oid[]")
        yield sql.SQL(RIGHTS).format(roles)
        yield sql.SQL(MEMBERS).format(roles, VERSIONS)
        yield _each("pg_policy", sql.SQL("t.polrelid = ANY ({})").format(_array(needs.relations, "oid[]")))
    if needs.text_search:
        yield from (_each(table, sql.SQL("true")) for table in ("pg_ts_config", "pg_ts_config_map", "pg_ts_dict"))


def _each(table: str, wanted: sql.Composable) -> sql.Composed:
    return sql.SQL(EACH).format(VERSIONS, sql.Identifier(table), wanted)


def _array(ids: Sequence[Any], type_: LiteralString) -> sql.Composed:
    return sql.SQL("{}::text[]::{}").format(sql.Literal([str(id_) for id_ in ids]), sql.SQL(type_))
