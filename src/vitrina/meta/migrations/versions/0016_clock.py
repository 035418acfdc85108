"""How far the database's clock has been seen."""

from vitrina.meta.migrate import run_sql

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
