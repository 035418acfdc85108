"""The client of Spark Connect, imported with what has to be put right for that."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_a_program() -> Iterator[None]:
    """It takes a program that comes from no file (python -c, a worker of tests) for its own doctests, and ends it."""
    main = sys.modules["__main__"]
    if hasattr(main, "__file__"):
        yield
        return
    main.__file__ = sys.executable
    yield
    del main.__file__


with as_a_program(), warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # about pandas, whose frames nobody makes here
    from pyspark.sql.connect import proto as proto
    from pyspark.sql.connect.client import SparkConnectClient as SparkConnectClient
    from pyspark.sql.connect.client import reattach
    from pyspark.sql.connect.client.retries import DefaultPolicy as DefaultPolicy
    from pyspark.sql.connect.conf import RuntimeConf as RuntimeConf
    from pyspark.sql.types import StructType as StructType

Answers = reattach.ExecutePlanResponseReattachableIterator
