"""The core meta-store."""

from vitrina.meta.migrate import run_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
