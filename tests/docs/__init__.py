"""Every command, file and query of the documentation is run, in order, on one embedded stack."""
