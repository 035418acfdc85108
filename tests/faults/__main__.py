"""`python -m tests.faults --rounds 500`: the fault loop on servers of its own; its figures go to docs/faults.json."""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from tests.elastic import BOTH, ELASTICSEARCH
from tests.faults.rig import Rig, rigged
from tests.faults.rounds import Loop
from tests.support import elastic_server, open_server
from vitrina.embedded.search import EmbeddedSearch
from vitrina.log import configure_logging

RESULT = Path(__file__).parents[2] / "docs" / "faults.json"
WORTH_KEEPING = 100  # rounds; fewer show nothing new


def main() -> int:
    """Play the rounds, and tell how it went."""
    options = _options()
    configure_logging("json")
    print(f"seed {options.seed}, {options.rounds} rounds", flush=True)
    with _rig(options.engine) as rig:
        loop = Loop(rig, options.seed)
        for number, fault in islice(enumerate(loop.faults(), 1), options.first - 1, options.first - 1 + options.rounds):
            began = time.monotonic()
            try:
                said = loop.play(number, fault)
            except BaseException:
                print(f"round {number} ({fault.__name__}) failed; again: {_command(options, number)}", flush=True)
                raise
            print(f"{number:>5}  {fault.__name__:<14} {said}, {time.monotonic() - began:.1f} s", flush=True)
        summary = loop.finish() | _machine(rig)
    print(json.dumps(summary, indent=2))
    if options.rounds >= WORTH_KEEPING and options.engine == ELASTICSEARCH:
        RESULT.write_text(json.dumps(summary, indent=2) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="The fault loop.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=1, help="the number of the first round")
    parser.add_argument("--engine", choices=BOTH, default=ELASTICSEARCH, help="where indexes are")
    return parser.parse_args()


def _command(options: argparse.Namespace, number: int) -> str:
    return f"make faults SEED={options.seed} FIRST={number} ROUNDS=1 ENGINE={options.engine}"


@contextmanager
def _rig(engine: str) -> Iterator[Rig]:
    folder = Path(tempfile.mkdtemp(prefix="vitrina-faults-"))
    folder.chmod(0o755)
    elastic: EmbeddedSearch = (elastic_server if engine == ELASTICSEARCH else open_server)(folder / engine)
    try:
        elastic.start()
        with rigged(folder, elastic.url, elastic, engine=engine, elsewhere=True) as rig:
            yield rig
    finally:
        elastic.purge()
        shutil.rmtree(folder, ignore_errors=True)


def _machine(rig: Rig) -> dict[str, Any]:
    postgres = rig.lab.db.info.parameter_status("server_version")
    engine = rig.elastic.version if rig.elastic else None
    python = sys.version.split()[0]
    return {"postgres": postgres, rig.search.engine: engine, "python": python, "cpus": os.cpu_count()}


if __name__ == "__main__":
    sys.exit(main())
