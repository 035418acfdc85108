from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
import re
from vitrina.sources import registry
from vitrina.sources.engine import Engine, Errand
from vitrina.sources.source import Abilities, Address, Estimate, Kind, Source
from vitrina.sources.spark.engine import SparkEngine
from vitrina.sources.spark.working import Working
from vitrina.sql.describe import Column
from vitrina.domain.findings import Finding
from vitrina.domain.errors import RetryableError

TYPES = {
    "int": "integer",
    "string": "text",
    "timestamp": "timestamp with time zone",
    "double": "double precision",
    "float": "real",
    "timestamp_ntz": "timestamp without time zone",
}
CONF: dict[str, str] = {}


@dataclass(frozen=True)
class SparkStub(Source):
    url: str = ""
    is_lost: bool = False

    def session(self):
        from pyspark.sql.connect.session import SparkSession

        try:
            s = SparkSession.builder.remote(self.url).create()
            for k, v in CONF.items():
                s.conf.set(k, v)
        except Exception as e:
            raise RetryableError(str(e)[:300]) from e
        return s

    def close(self) -> None: ...
    def cancel(self) -> None: ...
    def version(self) -> str:
        return "spark"

    def judge(self, select, *, schemas, functions=()):
        return []

    def describe(self, select):
        s = self.session()
        rows = s.sql(f"DESCRIBE QUERY {select}").toArrow().to_pylist()
        s.stop()
        return [
            Column(r["col_name"], re.sub("decimal", "numeric", TYPES.get(r["data_type"], r["data_type"]))) for r in rows
        ]

    def estimate(self, select):
        return Estimate(100, 20)

    def rows(self, select, size):
        raise AssertionError("no row comes here")

    def engine(self, errand: Errand) -> Engine:
        from contextlib import nullcontext

        return SparkEngine(Working(self.session(), self.name, errand), lambda s, select, key: nullcontext(select))


def open_it(a: Address):
    return SparkStub(a.name, SPARK.abilities, url=a.url)


SPARK = Kind(("sc",), Abilities(writes_files=True), open_it, check=lambda s, schemas: s, tables=lambda s: [])
if SPARK not in registry.KINDS:
    registry.KINDS.append(SPARK)
