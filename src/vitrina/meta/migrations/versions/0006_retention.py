"""What bounds the growth of the meta-store, and what a tick costs in a large one."""

from vitrina.meta.migrate import run_sql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
