"""Live marts: captures of sources, and the log of their changes."""

from vitrina.meta.migrate import run_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
