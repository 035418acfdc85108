"""`make bench`: measure, print the tables, write results, charts and page. `ARGS=--only=live` runs one part."""

import argparse
import signal
import sys
from collections.abc import Callable

from bench import (
    arrow,
    batches,
    changed,
    commands,
    documents,
    films,
    followers,
    idle,
    live,
    memory,
    ratings,
    remote,
    sustained,
    transform,
    watched,
    wide,
)
from bench.page import publish
from bench.report import Options, Report, Skipped, keep, show, warn

PARTS: dict[str, Callable[[Options], Report]] = {
    "films": films.measure,
    "changed": changed.measure,
    "remote": remote.measure,
    "transform": transform.measure,
    "ratings": ratings.measure,
    "wide": wide.measure,
    "live": live.measure,
    "sustained": sustained.measure,
    "watched": watched.measure,
    "followers": followers.measure,
    "elasticsearch": documents.measure,
    "batches": batches.measure,
    "arrow": arrow.measure,
    "memory": memory.measure,
    "idle": idle.measure,
    "commands": commands.measure,
}


def main() -> None:
    """Run every part, each work alternately with its floor and its peers."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--scale", choices=films.SCALES, default="full")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be given more than once")
    parser.add_argument("--no-peers", action="store_true", help="only Vitrina and the floor; nothing is kept")
    given = parser.parse_args()
    options = Options(given.scale, given.times, not given.no_peers)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # its servers end with it
    reports = {}
    for part in given.only or PARTS:
        try:
            reports[part] = PARTS[part](options)
            show(reports[part])
        except Skipped as reason:
            warn(f"{part}: {reason}")
    if options.peers:  # else figures would replace others that say more
        keep(reports, options.scale, PARTS)
        publish()


if __name__ == "__main__":
    main()
