"""Bring the meta-store up to date. Safe to call from any number of processes at once.

Alembic is imported only when there is something to migrate: it costs a quarter of a second at every start.
"""

from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from vitrina import __version__
from vitrina.meta import compatibility
from vitrina.meta.db import connect, translated
from vitrina.meta.repos.marks import TURN, Mark

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(conninfo: str, to: str = "head") -> None:
    """Apply what is missing, in one transaction, one process at a time; a newer meta-store is left as it is."""
    with connect(conninfo, "migrate") as turn, translated(), turn.transaction():
        Mark(turn, "vitrina migrate", TURN).leave()
        _upgrade(conninfo, to)


def _upgrade(conninfo: str, to: str) -> None:
    import sqlalchemy as sa
    from alembic import command
    from alembic.config import Config

    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _connect(conninfo), poolclass=sa.NullPool)
    with engine.begin() as connection:
        if _is_newer(conninfo):
            return
        connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS etl"))
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, to)
        _tell(connection.connection.driver_connection, compatibility.newest() if to == "head" else to)


def run_sql(migration: str) -> None:
    """Execute the .sql file beside a migration as it stands: many statements, no parameters."""
    from alembic import op

    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(Path(migration).with_suffix(".sql").read_bytes())


def _is_newer(conninfo: str) -> bool:
    """Somebody with a newer program has migrated; whether this one may go on with it is for `compatibility`."""
    with connect(conninfo, "migrate") as conn:
        schema = compatibility.find(conn)
    if schema.version <= compatibility.newest():
        return False
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
