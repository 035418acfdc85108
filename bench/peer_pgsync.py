"""PGSync: `bootstrap`, a sync, `teardown`. Runs in the peers' environment, configured by variables as PGSync is.

Arguments: what to do (bootstrap, sync, teardown), the schema file, the server's version. A sync prints its seconds.
"""

import json
import sys
import time

import elasticsearch
from pgsync.sync import Sync


def main(action: str, schema: str, version: str) -> None:
    """Everything is connected before the clock starts; the index is there with its mapping."""
    # The build of the server without a container does not answer GET /, by which PGSync asks for the version.
    elasticsearch.Elasticsearch.info = lambda _: {"version": {"number": version}}
    with open(schema) as file:
        [doc] = json.load(file)
    sync = Sync(doc, validate=action == "sync", repl_slots=action == "sync")
    if action == "bootstrap":
        sync.setup()
    elif action == "teardown":
        sync.teardown()
    else:
        started = time.perf_counter()
        sync.pull()
        print("\n" + json.dumps({"seconds": time.perf_counter() - started}))


main(*sys.argv[1:])
