"""HTTP: routes, models, errors, access. No rule lives here."""
