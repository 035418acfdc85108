"""What is known of Spark before its client is imported."""

import re

from vitrina.sources.arrow.extra import of_extra
from vitrina.sources.arrow.text import check_text
from vitrina.sources.source import Abilities, Address, Kind, Source
from vitrina.sources.spark.tokens import tables_of

PLACE = re.compile(r"sc://(?:[^/@;]*@)?([^/@;?#]*)", re.IGNORECASE)
ABILITIES = Abilities(gives_blocks=True)


def open_spark(address: Address) -> Source:
    """A session of its own, through a client without a JVM."""
    with of_extra("spark"):
        from vitrina.sources.spark.reader import open_reader
    return open_reader(address, ABILITIES)


def shown(url: str) -> str:
    """Where it is; what follows the path may have a token."""
    found = PLACE.match(url)
    return f"sc://{found[1]}" if found else "sc://"


SPARK = Kind(("sc",), ABILITIES, open_spark, check_text, shown, tables_of)
