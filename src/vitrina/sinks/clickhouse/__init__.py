"""ClickHouse, as a place where marts live: typed tables, and a view that readers use."""
