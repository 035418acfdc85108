"""A Postgres, a lab and the suites come with Vitrina."""

pytest_plugins = ["vitrina.testing"]
