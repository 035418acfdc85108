"""Live marts are audited, and one that stands still is told of."""

from vitrina.meta.migrate import run_sql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
