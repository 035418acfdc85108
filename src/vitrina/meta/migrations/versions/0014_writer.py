"""Code of a mart runs with the rights of its writer, and of nobody else."""

from vitrina.meta.migrate import run_sql

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Run the SQL beside this file."""
    run_sql(__file__)
