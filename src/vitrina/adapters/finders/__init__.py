"""Finders: which keys may differ. A mode is a finder and the steps that converge what it found."""
