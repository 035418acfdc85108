"""`make bench-page`: docs/benchmarks.md and its charts, from `bench/results.json`; every measurement ends with it."""

import json
from pathlib import Path
from typing import Any

from bench.chart import provenance, speed_chart, target_chart, wanted
from bench.report import RESULTS, out

ROOT = Path(__file__).parent.parent
NOTES = Path(__file__).parent / "notes"
PAGE = "docs/benchmarks.md"
SPEED, TARGETS = "docs/images/bench-speed.svg", "docs/images/bench-targets.svg"


def publish(results: Path = RESULTS, root: Path = ROOT) -> None:
    """Write what the results give."""
    for name, text in documents(json.loads(results.read_text())).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    out.print(f"written: {results.name}, {PAGE} and its charts", highlight=False)


def documents(results: dict[str, Any]) -> dict[str, str]:
    """The page and the charts, by file."""
    return {PAGE: page(results), SPEED: speed_chart(results), TARGETS: target_chart(results)}


def page(results: dict[str, Any]) -> str:
    """The page."""
    met = sum(target["met"] for target in results["targets"])
    parts = [_part(name, part, results["targets"]) for name, part in results["parts"].items()]
    return "\n\n".join(
        [
            "<!-- Written by `make bench-page` from bench/results.json and bench/notes; edit those. -->",
            "# Benchmarks",
            f"{met} of {len(results['targets'])} targets are met.",
            "![Times of Vitrina and of peers, as times the floor](images/bench-speed.svg)",
            "![Targets and how much of each is needed](images/bench-targets.svg)",
            (NOTES / "method.md").read_text().strip(),
            "\n".join(f"- {said}" for said in provenance(results)),
            *parts,
            "",
        ]
    )


def _part(name: str, part: dict[str, Any], targets: list[dict[str, Any]]) -> str:
    measured, note = _table(part["head"], part["rows"]), (NOTES / f"{name}.md").read_text().strip()
    skipped = [f"Not measured: {why}" for why in part["skipped"]]
    blocks = [f"## {part['title']}", measured, _rounds(part), _targets(name, targets), *skipped, note]
    return "\n\n".join(block for block in blocks if block)


def _rounds(part: dict[str, Any]) -> str:
    counts = ", ".join(f"{way} {count}" for way, count in part["rounds"].items())
    return f"Medians; rounds: {counts}." if counts else ""


def _targets(name: str, targets: list[dict[str, Any]]) -> str:
    rows = [
        [t["name"], f"{t['value']:g}", wanted(t), "yes" if t["met"] else "**no**"] for t in targets if t["part"] == name
    ]
    return _table(["target", "measured", "wanted", "met"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    publish()
