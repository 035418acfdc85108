"""Benchmarks: Vitrina beside the floor, in one run, on one server."""
