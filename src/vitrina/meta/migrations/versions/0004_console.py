"""Sessions of the console."""

from vitrina.meta.migrate import run_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
