"""The meta-store: schema `etl`, its migrations, and one method per query."""
