"""Questions that change no mart: preview and reconcile."""
