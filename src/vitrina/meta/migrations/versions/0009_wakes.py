"""A run that ends wakes nobody."""

from vitrina.meta.migrate import run_sql

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
