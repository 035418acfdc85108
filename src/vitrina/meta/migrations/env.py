"""Alembic's entry point: the connection comes from `vitrina.meta.migrate`, locked and in a transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], version_table_schema="etl")
context.run_migrations()
