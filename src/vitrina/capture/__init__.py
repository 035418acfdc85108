"""Changes of sources: what reads them, and the log that live marts follow."""
