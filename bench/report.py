"""What a part of the benchmark gives back, and how it is shown and kept."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table

import vitrina

RESULTS = Path(__file__).parent / "results.json"
Measured: TypeAlias = dict[str, float]
out = Console(width=120)


class Skipped(Exception):
    """A part, or a peer, that cannot be had on this machine; says what is missing."""


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    scale: str
    times: int = 3
    peers: bool = True


@dataclass(frozen=True)
class Target:
    """A number and what it should be."""

    name: str
    value: float
    wanted: float
    met: bool
    better: str  # low or high

    @classmethod
    def at_most(cls, name: str, value: float, wanted: float) -> "Target":
        """Small is good."""
        return cls(name, value, wanted, value <= wanted, "low")

    @classmethod
    def at_least(cls, name: str, value: float, wanted: float) -> "Target":
        """Large is good."""
        return cls(name, value, wanted, value >= wanted, "high")


@dataclass(frozen=True)
class Compared:
    """One work by several ways, the floor among them: medians in seconds, and how many times the floor is wanted."""

    work: str
    most: float
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class Report:
    """One part's figures: seconds by the name of the work, and the targets they were held against."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    targets: Sequence[Target]
    medians: Measured
    versions: Mapping[str, str]
    skipped: Sequence[str] = field(default_factory=list)
    rounds: Mapping[str, int] = field(default_factory=dict)  # how often each way was measured
    compared: Sequence[Compared] = field(default_factory=list)


def warn(what: str) -> None:
    """Loud: a part that is left out must not look like one that passed."""
    out.print(f"[bold red]SKIPPED[/]: {what}", highlight=False)


def show(report: Report) -> None:
    """Two small tables."""
    times = Table(*report.head, title=report.title, box=box.SIMPLE_HEAD)
    for row in report.rows:
        times.add_row(*row)
    verdicts = Table("target", "measured", "wanted", "met", box=box.SIMPLE_HEAD)
    for target in report.targets:
        verdicts.add_row(target.name, f"{target.value:.2f}", str(target.wanted), "yes" if target.met else "NO")
    out.print(times)
    out.print(verdicts)
    for what in report.skipped:
        warn(what)


def keep(reports: Mapping[str, Report], scale: str, order: Iterable[str], results: Path = RESULTS) -> None:
    """Into the file, in this order; what another run measured of other parts stays there, with its date and scale."""
    known = json.loads(results.read_text()) if results.exists() else {"targets": [], "parts": {}}
    measured = known["parts"] | {part: _part(report, scale) for part, report in reports.items()}
    parts = {part: measured[part] for part in order if part in measured}
    targets = [t for part in parts for t in _targets(part, reports, known["targets"])]
    results.write_text(json.dumps({"targets": targets, "parts": parts}, indent=2, ensure_ascii=False) + "\n")


def _targets(part: str, reports: Mapping[str, Report], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if part in reports:
        return [_target(part, target) for target in reports[part].targets]
    return [target for target in known if target["part"] == part]


def _target(part: str, target: Target) -> dict[str, Any]:
    return {
        "part": part,
        "name": target.name,
        "value": round(target.value, 2),
        "target": target.wanted,
        "met": target.met,
        "better": target.better,
    }


def _part(report: Report, scale: str) -> dict[str, Any]:
    return {
        "title": report.title,
        "date": datetime.now(UTC).date().isoformat(),
        "scale": scale,
        "machine": machine(),
        "versions": {"vitrina": vitrina.__version__, "python": platform.python_version()} | dict(report.versions),
        "rounds": dict(report.rounds),
        "head": list(report.head),
        "rows": [list(row) for row in report.rows],
        "compared": [asdict(compared) for compared in report.compared],
        "medians": {name: round(value, 3) for name, value in report.medians.items()},
        "skipped": list(report.skipped),
    }


def machine() -> str:
    """What it was measured on, and how busy that was."""
    cpu = Path("/proc/cpuinfo").read_text().partition("model name")[2].partition("\n")[0].strip("\t :")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cpu}, {os.cpu_count()} cores, {memory:.0f} GB, load {os.getloadavg()[0]:.1f}"
