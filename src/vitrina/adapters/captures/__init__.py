"""Change capture: what happens to a source's tables, as a log in the meta-store."""
