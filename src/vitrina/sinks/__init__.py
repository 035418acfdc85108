"""Where marts live."""
