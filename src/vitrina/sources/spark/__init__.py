"""Spark by Spark Connect, as a source and as an engine; see docs/arrow.md and docs/spark.md."""
