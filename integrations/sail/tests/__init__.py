"""Sources by Spark Connect, on Sail."""
