"""Who is waited for before a mart can go live."""

from vitrina.meta.migrate import run_sql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
