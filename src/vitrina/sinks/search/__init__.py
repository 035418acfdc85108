"""What search engines have in common, Elasticsearch and those that came of it: marts that are indexes of theirs."""
