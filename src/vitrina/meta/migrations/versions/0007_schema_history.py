"""Which programs a meta-store still works with."""

from vitrina.meta.migrate import run_sql

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
