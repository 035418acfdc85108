"""Elasticsearch marts: indexes, their shadows, and what a pipeline may say about them."""

from vitrina.meta.migrate import run_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
