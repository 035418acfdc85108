"""What is known of Spark before its client is imported."""

import re
from dataclasses import replace

from vitrina.sources.arrow.extra import of_extra
from vitrina.sources.arrow.text import check_text
from vitrina.sources.postgres.kind import ELSEWHERE
from vitrina.sources.postgres.kind import shown as shown_postgres
from vitrina.sources.source import Abilities, Address, Kind, Source
from vitrina.sources.spark.tokens import tables_of

PLACE = re.compile(r"sc://(?:[^/@;]*@)?([^/@;?#]*)", re.IGNORECASE)
ABILITIES = Abilities(gives_blocks=True)
ENGINE = replace(ABILITIES, writes_files=True)  # of the one that sees the lake


def open_spark(address: Address) -> Source:
    """A session of its own, through a client without a JVM."""
    with of_extra("spark"):
        from vitrina.sources.spark.reader import open_reader
    return open_reader(address, ENGINE if address.name == address.settings.lake_engine else ABILITIES)


def shown(url: str) -> str:
    """Where it is; what follows the path may have a token."""
    found = PLACE.match(url)
    return f"sc://{found[1]}" if found else "sc://"


SPARK = Kind(("sc",), ENGINE, open_spark, check_text, shown, tables_of)


# ── a Postgres that Spark reads ──────────────────────────────────────────────────────────────────────────────────────

SCHEME = "spark+postgresql"


def open_parallel(address: Address) -> Source:
    """As a Postgres, and with an engine for the lake."""
    from vitrina.sources.spark.parallel import open_reader

    return open_reader(address, PARALLEL.abilities)


def shown_parallel(url: str) -> str:
    """As a Postgres is shown."""
    return f"spark+{shown_postgres('postgresql' + url[len(SCHEME) :])}"


ABLE = replace(ELSEWHERE, is_capturable=False, writes_files=True)
PARALLEL = Kind((SCHEME,), ABLE, open_parallel, shown=shown_parallel)
