"""Bring the meta-store up to date. Safe to call from any number of processes at once.

Alembic is imported only when there is something to migrate: it costs a quarter of a second at every start.
"""

from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import tuple_row

from vitrina import __version__
from vitrina.meta import compatibility
from vitrina.meta.db import connect, translated
from vitrina.meta.repos.marks import TURN, Mark

if TYPE_CHECKING:
    from alembic.script import Script


def upgrade(conninfo: str, to: str = "head") -> None:
    """Apply what is missing, in one transaction, one process at a time; a newer meta-store is left as it is."""
    with connect(conninfo, "migrate") as turn, translated(), turn.transaction():
        Mark(turn, "vitrina migrate", TURN).leave()
        if not _is_done(conninfo, to):
            _upgrade(conninfo, to)


def _upgrade(conninfo: str, to: str) -> None:
    import sqlalchemy as sa
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from alembic.script.revision import RevisionMap

    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _connect(conninfo), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS etl"))
        driver: Any = connection.connection.driver_connection
        scripts = ScriptDirectory(str(compatibility.VERSIONS))
        scripts.revision_map = RevisionMap(lambda: _scripts(driver))
        steps = {"fn": lambda now, _: scripts._upgrade_revs(to, now), "version_table_schema": "etl"}
        MigrationContext.configure(connection, opts=steps).run_migrations()
        _tell(driver, compatibility.newest() if to == "head" else to)


def _scripts(driver: psycopg.Connection[Any]) -> Iterator["Script"]:
    """A migration is a .sql file, executed as it stands; what Alembic wants to know of it is in its name."""
    from alembic.script import Script

    before = None
    for migration in compatibility.known():
        module, run = ModuleType(migration.file.stem), partial(driver.execute, migration.file.read_bytes())
        vars(module).update(revision=migration.version, down_revision=before, upgrade=run)
        yield Script(module, migration.version, str(migration.file))
        before = migration.version


def _is_done(conninfo: str, to: str) -> bool:
    """Nothing is missing, or somebody with a newer program has migrated; whether this one may go on with that is for
    `compatibility`."""
    with connect(conninfo, "migrate") as conn:
        schema = compatibility.find(conn)
    if schema.version <= compatibility.newest():
        return to == "head" and schema.version == compatibility.newest()
    wrong = compatibility.misfit(schema)
    if wrong:
        raise wrong
    return True


def _tell(connection: Any, reached: str) -> None:
    """Keep for older programs what the migrations say of them."""
    for migration in compatibility.known():
        if compatibility.TOLD_SINCE <= migration.version <= reached:
            told = {"version": migration.version, "compatible_with": migration.compatible_with}
            connection.execute(compatibility.SQL["tell"], told | {"program": __version__})


def _connect(conninfo: str) -> psycopg.Connection[Any]:
    """As Alembic wants it: plain rows, and transactions that it ends itself."""
    connection: psycopg.Connection[Any] = connect(conninfo, "migrate", autocommit=False)
    connection.row_factory = tuple_row
    return connection
