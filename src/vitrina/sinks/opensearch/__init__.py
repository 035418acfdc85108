"""OpenSearch, as a place where documents go."""
