"""What bounds the meta-store's growth."""

from vitrina.meta.migrate import run_sql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
