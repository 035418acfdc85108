"""Readers: where rows come from."""
