"""The console: pages over the same services as the API. It adds no rule of its own."""
