"""Bring the meta-store up to date. Safe to call from any number of processes at once."""

from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 7_165_203_118  # of pg_advisory_xact_lock; any number, as long as it is always this one


def upgrade(conninfo: str) -> None:
    """Apply what is missing, in one transaction, one process at a time."""
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo), poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        connection.execute(sa.text("CREATE SCHEMA IF NOT EXISTS etl"))
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_current(conninfo: str) -> bool:
    """Whether every migration of this version has been applied."""
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo), poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table_schema": "etl"})
        return context.get_current_revision() == ScriptDirectory.from_config(_config()).get_current_head()


def run_sql(migration: str) -> None:
    """Execute the .sql file beside a migration as it stands: many statements, no parameters."""
    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(Path(migration).with_suffix(".sql").read_bytes())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
