"""Marts as files of Parquet without a catalogue: a folder for each version, and a manifest that says which counts."""
