"""Whom a runner cannot reach."""

from vitrina.meta.migrate import run_sql

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
