"""Elasticsearch, as a place where documents go."""
