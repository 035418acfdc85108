"""Spark as a source, by Spark Connect; see docs/arrow.md."""
