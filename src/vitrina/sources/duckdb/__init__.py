"""DuckDB as a source: a database file, or a folder of Parquet files; see docs/arrow.md."""
