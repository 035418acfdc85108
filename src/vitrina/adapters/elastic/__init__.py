"""Elasticsearch marts: what a document looks like, the index it goes into, and how it gets there."""
