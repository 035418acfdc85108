"""Servers that come along: Postgres and Elasticsearch, as processes of this machine."""
