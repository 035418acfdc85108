"""Bring the meta-store up to date. Safe to call from any number of processes at once."""

from vitrina import __version__
from vitrina.meta import compatibility
from vitrina.meta.compatibility import Migration
from vitrina.meta.db import Connection, connect, translated
from vitrina.meta.repos.marks import TURN, Mark


def upgrade(conninfo: str, to: str = "") -> None:
    """Apply what is missing up to a version, or all of it, in one transaction, one process at a time; a meta-store of a
    newer program is left as it is."""
    with connect(conninfo, "migrate") as conn, translated(), conn.transaction():
        Mark(conn, "vitrina migrate", TURN).leave()
        missing = [migration for migration in _above(conn) if migration.version <= (to or migration.version)]
        if missing:
            conn.execute(compatibility.SQL["version_table"])
        for migration in missing:
            _apply(conn, migration)


def _above(conn: Connection) -> list[Migration]:
    """The migrations that the meta-store has not had. None: it is up to date, or somebody with a newer program has
    migrated; whether this one may go on with that is for `compatibility`."""
    schema, migrations = compatibility.find(conn), compatibility.known()
    wrong = compatibility.misfit(schema) if schema.version > migrations[-1].version else None
    if wrong:
        raise wrong
    return [migration for migration in migrations if migration.version > schema.version]


def _apply(conn: Connection, migration: Migration) -> None:
    """The file as it stands, then that it was applied; and what it says of older programs, for those."""
    conn.execute(migration.file.read_bytes())
    reached = {"version": migration.version, "compatible_with": migration.compatible_with, "program": __version__}
    conn.execute(compatibility.SQL["reach"], reached)
    if migration.version >= compatibility.TOLD_SINCE:
        conn.execute(compatibility.SQL["tell"], reached)
