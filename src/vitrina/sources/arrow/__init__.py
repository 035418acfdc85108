"""What sources that speak Arrow have in common: types, and rows on their way to Postgres."""
