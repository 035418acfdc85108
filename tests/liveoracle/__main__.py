"""Run the oracle: python -m tests.liveoracle --queries 1000 --seed 1."""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from os import environ
from pathlib import Path

from tests.liveoracle.checks import Miss
from tests.liveoracle.running import prepare, run, shrunk, told
from tests.liveoracle.shares import count, written
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import Connection, connect

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off", "jit": "off"}


@contextmanager
def own_server() -> Iterator[Connection]:
    """A connection to a server that lives as long as this."""
    with tempfile.TemporaryDirectory(prefix="vitrina-oracle-") as home:
        Path(home).chmod(0o755)
        bin_dir = environ.get("VITRINA_TEST_PG_BIN")
        server = EmbeddedPostgres(Path(home) / "postgres", bin_dir=Path(bin_dir) if bin_dir else None, settings=FAST)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server ends with us
        server.start()
        try:
            with connect(server.conninfo(), "oracle") as conn:
                yield conn
        finally:
            server.purge()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=5, help="misses to look for")
    parser.add_argument("--shares", action="store_true", help="only count why changes refresh everything")
    given = parser.parse_args()
    with own_server() as conn:
        began, own = time.monotonic(), time.process_time()
        oracle = prepare(conn)
        if given.shares:
            print(written(count(oracle, given.queries, given.seed)))
            return 0
        misses: list[Miss] = []
        for miss in islice(run(oracle, given.queries, given.seed), given.most):
            print(told(oracle.universe, shrunk(oracle, miss)), flush=True)
            misses.append(miss)
        print(
            oracle.tally,
            f"{time.monotonic() - began:.0f} s, own {time.process_time() - own:.0f} s, {len(misses)} missed",
        )
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
