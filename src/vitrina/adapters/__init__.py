"""Everything that touches a source or a sink: readers, finders, writers, transforms."""
