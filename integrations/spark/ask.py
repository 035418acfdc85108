"""Asks a Spark: `python ask.py sc://host:port SETTINGS`, then a line of JSON with a statement for each with its rows.

By Spark's own client, and none of Vitrina's code: what it gives is what anybody reads. Values are as Spark writes them.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def asked(session: SparkSession, statement: str) -> dict[str, Any]:
    """Its rows, or what is wrong with it."""
    try:
        found = session.sql(statement).toArrow()
    except Exception as error:  # for whoever asked
        return {"error": str(error).partition("JVM stacktrace")[0]}
    return {"rows": [{name: shown(value) for name, value in row.items()} for row in found.to_pylist()]}


def shown(value: Any) -> Any:
    """What JSON has no word for as text; lists as lists."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    return value if isinstance(value, bool | int | str | None) else str(value)


def main(url: str, settings: str) -> None:
    """Until nobody asks any more."""
    session = SparkSession.builder.remote(url).create()
    for name, value in json.loads(settings).items():
        session.conf.set(name, value)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(asked(session, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
