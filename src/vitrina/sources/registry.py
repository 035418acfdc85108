"""Which kind of source answers at an address, by its scheme."""

import re

from vitrina.domain.errors import ConfigError
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.sources.duckdb.kind import DUCKDB
from vitrina.sources.postgres.kind import POSTGRES
from vitrina.sources.source import Kind
from vitrina.sources.spark.kind import PARALLEL, SPARK

KINDS = [POSTGRES, DUCKDB, SPARK, PARALLEL]  # a new kind: its folder, and a word here
SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def kind_of(url: str) -> Kind:
    """Without a scheme, it is a connection string of Postgres."""
    found = SCHEME.match(url)
    if found is None:
        return POSTGRES
    scheme = found[1].lower()
    for kind in KINDS:
        if scheme in kind.schemes:
            return kind
    known = ", ".join(f"{name}://" for kind in KINDS for name in kind.schemes)
    raise ConfigError.of(SourceRefusal.NO_KIND_OF_SOURCE, scheme=scheme, known=known)
