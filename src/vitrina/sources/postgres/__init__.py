"""Postgres as a source, here or elsewhere."""
