"""Which package's tap reads a source."""

from vitrina.meta.migrate import run_sql

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
