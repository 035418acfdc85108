"""Rows as Parquet keeps them: what the kinds have in common whose data is in such files."""
