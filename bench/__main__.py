"""`make bench`: measure, print the tables, write `bench/results.json`. `ARGS=--only=live` runs one part."""

import argparse
from collections.abc import Callable

from bench import documents, films, live
from bench.report import Report, Skipped, keep, show, warn

PARTS: dict[str, Callable[[str, int], Report]] = {
    "films": films.measure,
    "elasticsearch": documents.measure,
    "live": live.measure,
}


def main() -> None:
    """Run every part, each work alternately with its floor and its peers."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--scale", choices=films.SCALES, default="full")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone; may be given more than once")
    options = parser.parse_args()
    reports = {}
    for part in options.only or PARTS:
        try:
            reports[part] = PARTS[part](options.scale, options.times)
        except Skipped as reason:
            warn(f"{part}: {reason}")
    for report in reports.values():
        show(report)
    keep(reports, options.scale)


main()
