"""One class per table of the meta-store; one method = one query = one named transition."""
