"""Which relations a SELECT reads, as its server resolves it: of a view also what is behind it, to any depth.

Besides the tree: what is behind a materialised view, and what a table shares its rows with, as partition or parent.
"""

from collections.abc import Mapping

from vitrina.meta.db import Connection, fetch_all, queries, transaction
from vitrina.sql.tree import read_tree, rewritten_tree

SQL = queries("catalogue")


def relations_read(conn: Connection, session: Mapping[str, str], select: str) -> list[str]:
    """Their names, as schema.name. The query has been judged; it is neither planned nor executed."""
    with transaction(conn, session, read_only=True, keep=False):
        found = read_tree(rewritten_tree(conn, select)).relations
        return [row["name"] for row in fetch_all(conn, SQL["reads"], {"relations": list(found)})]
