"""Bring the meta-store up to date. Safe to call from any number of processes at once.

Alembic is imported only when there is something to migrate: it costs a quarter of a second at every start.
"""

from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from vitrina.meta.db import connect, fetch_one

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 7_165_203_118  # of pg_advisory_xact_lock; any number, as long as it is always this one


def upgrade(conninfo: str) -> None:
    """Apply what is missing, in one transaction, one process at a time."""
    import sqlalchemy as sa
    from alembic import command
    from alembic.config import Config

    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _connect(conninfo), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS etl"))
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, "head")


def is_current(conninfo: str) -> bool:
    """Whether every migration of this version has been applied."""
    newest = max(file.stem.split("_")[0] for file in (MIGRATIONS / "versions").glob("*.sql"))
    with connect(conninfo, "migrate") as conn:
        if fetch_one(conn, "SELECT 1 WHERE to_regclass('etl.alembic_version') IS NOT NULL") is None:
            return False
        row = fetch_one(conn, "SELECT version_num FROM etl.alembic_version")
    return row is not None and row["version_num"] == newest


def run_sql(migration: str) -> None:
    """Execute the .sql file beside a migration as it stands: many statements, no parameters."""
    from alembic import op

    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(Path(migration).with_suffix(".sql").read_bytes())


def _connect(conninfo: str) -> psycopg.Connection[Any]:
    """As Alembic wants it: plain rows, and transactions that it ends itself."""
    connection: psycopg.Connection[Any] = connect(conninfo, "migrate", autocommit=False)
    connection.row_factory = tuple_row
    return connection
