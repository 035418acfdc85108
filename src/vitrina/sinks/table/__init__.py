"""Marts in the warehouse: tables of Postgres."""
