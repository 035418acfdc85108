"""What a database holds, as hashes: two looks that differ show which table has changed."""

from tests.support import Lab

HASH = "SELECT md5(coalesce(string_agg(ROW(t.*)::text, ',' ORDER BY ROW(t.*)::text), '')) FROM {} t"


def hash_of(lab: Lab, table: str) -> str:
    """Of all rows of a table."""
    return str(lab.value(HASH.format(table)))


def hashes(lab: Lab, *schemas: str) -> dict[str, str]:
    """Every table and sequence of these schemas with the hash of its rows."""
    names = lab.sql(
        "SELECT format('%%I.%%I', relnamespace::regnamespace, relname) FROM pg_class WHERE relkind IN ('r', 'S')"
        " AND relnamespace::regnamespace::text = ANY (%s)",
        list(schemas),
    )
    return {name: hash_of(lab, name) for (name,) in names}
