"""Nobody's code runs in ours: names are found in the server's own catalogue."""

from vitrina.meta.migrate import run_sql

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
