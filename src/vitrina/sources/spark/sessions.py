"""Sessions of Spark for an engine: each run has one of its own."""

import warnings
from functools import partial
from typing import Any

from vitrina.domain.errors import ConfigError
from vitrina.settings import Settings
from vitrina.sources.engine import Engine, Errand
from vitrina.sources.spark.asking import answered
from vitrina.sources.spark.engine import Reading, SparkEngine
from vitrina.sources.spark.working import Working, leave, reported

# What a value is and what a text means is said here, to every session, and not by whoever runs the cluster: the guard
# reads "…" as a string, and a file is no table.
PINNED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.runSQLOnFiles": "false",
}
CONNECT_SECONDS = 30.0  # of a driver that may be busy with others
TRIES = 3  # of a request: who is longer away than that is waited for by the runner


def engine_at(settings: Settings, errand: Errand, reading: Reading) -> Engine:
    """Of the source that the settings name."""
    name = settings.lake_engine or ""
    url = settings.sources.get(name)
    if url is None:
        said = f"VITRINA_LAKE_ENGINE names {name!r}, and there is no such source"
        raise ConfigError(said, f"set VITRINA_SOURCES__{name.upper()}=sc://host:15002")
    return engine_of(url.get_secret_value(), settings, name, errand, reading)


def engine_of(url: str, settings: Settings, source: str, errand: Errand, reading: Reading) -> Engine:
    """With the settings of its session."""
    with reported(source, "connecting"):
        session = _connected(url, settings)
    return SparkEngine(Working(session, source, errand), reading)


def _connected(url: str, settings: Settings) -> Any:
    from vitrina.sources.spark.client import DefaultPolicy, as_a_program

    with as_a_program(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about pandas, whose frames nobody makes here
        from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(url).create()
    try:
        session.client.set_retry_policies([DefaultPolicy(max_retries=TRIES)])
        answered(partial(_settle, session, settings), CONNECT_SECONDS)
    except BaseException:
        leave(session, is_there=False)
        raise
    return session


def _settle(session: Any, settings: Settings) -> None:
    for name, value in {**settings.spark_session, **PINNED}.items():
        session.conf.set(name, value)
