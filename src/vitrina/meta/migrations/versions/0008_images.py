"""Which columns of changed rows a capture keeps."""

from vitrina.meta.migrate import run_sql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
