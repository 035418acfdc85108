"""`make bench`: measure, print the table, write `bench/results.json`."""

import argparse
import json
import platform
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from bench.films import SCALES, Films, Measured

RESULTS = Path(__file__).parent / "results.json"
out = Console(width=120)


def main() -> None:
    """Run every work alternately with its floor and take medians."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with Films.prepared(options.scale) as films:
        rounds = [films.round() for _ in range(options.times)]
        version = films.server_version()
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    targets = judge(medians)
    show(medians, targets, SCALES[options.scale])
    RESULTS.write_text(json.dumps(report(options.scale, medians, targets, version), indent=2) + "\n")
    out.print(f"written to {RESULTS.relative_to(Path.cwd())}")


def judge(medians: Measured) -> list[dict[str, object]]:
    """The targets, as ratios within this run wherever they are about speed."""
    rules: list[tuple[str, float, float, Callable[[float, float], bool]]] = [
        ("first load / one INSERT … ON CONFLICT", medians["load"] / medians["load_floor"], 1.0, float.__le__),
        ("unchanged re-run / first load", medians["unchanged"] / medians["load"], 0.5, float.__lt__),
        ("unchanged re-run / one MERGE", medians["unchanged"] / medians["unchanged_floor"], 1.0, float.__le__),
        ("half changed / one MERGE", medians["half_changed"] / medians["half_changed_floor"], 2.0, float.__le__),
        ("slowest batch of a load, ms", medians["batch_max_ms"], 300.0, float.__lt__),
        ("runner memory, MB", medians["memory_mb"], 150.0, float.__lt__),
    ]
    return [{"name": n, "value": round(v, 2), "target": t, "met": met(float(v), t)} for n, v, t, met in rules]


def show(medians: Measured, targets: list[dict[str, object]], rows: int) -> None:
    """Two small tables."""
    times = Table("work", "seconds", "floor", title=f"{rows:,} films, batches of 10,000", box=box.SIMPLE_HEAD)
    for name in ("load", "unchanged", "half_changed"):
        times.add_row(name.replace("_", " "), f"{medians[name]:.2f}", f"{medians[name + '_floor']:.2f}")
    verdicts = Table("target", "measured", "wanted", "met", box=box.SIMPLE_HEAD)
    for target in targets:
        verdicts.add_row(*(str(target[k]) for k in ("name", "value", "target")), "yes" if target["met"] else "NO")
    out.print(times)
    out.print(verdicts)


def report(scale: str, medians: Measured, targets: list[dict[str, object]], postgres: str) -> dict[str, object]:
    """What goes into the file."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "scale": scale,
        "python": platform.python_version(),
        "postgres": postgres,
        "medians": {name: round(value, 3) for name, value in medians.items()},
        "targets": targets,
    }


main()
