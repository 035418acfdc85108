"""What to do about an error, in a column of its own."""

from vitrina.meta.migrate import run_sql

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
