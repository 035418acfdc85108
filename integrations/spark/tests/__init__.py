"""Pipelines over Spark, on a real one."""
