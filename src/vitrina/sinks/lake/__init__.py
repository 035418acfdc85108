"""Marts as Apache Iceberg tables: files in a lake, and one row of the warehouse that says which of them count."""
