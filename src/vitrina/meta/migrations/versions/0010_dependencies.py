"""What live marts depend on besides rows."""

from vitrina.meta.migrate import run_sql

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
