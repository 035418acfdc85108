"""Freshness limits, incidents and the alerts about them."""

from vitrina.meta.migrate import run_sql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
