"""Apache Spark by Spark Connect: a source of Arrow, and an engine that keeps marts in a lake by itself."""
