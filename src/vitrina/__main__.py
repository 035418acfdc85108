"""`python -m vitrina`."""

from vitrina.cli import app

app()
