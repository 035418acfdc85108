"""What a run does: find the keys that may differ, and converge them."""
