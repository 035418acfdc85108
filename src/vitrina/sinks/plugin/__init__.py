"""Stores that other packages bring."""
