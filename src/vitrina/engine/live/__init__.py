"""Mode `live`: from changes in the log to the keys that they touch."""
