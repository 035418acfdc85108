"""docs/scaling.md: what was measured, and what is computed from it for more rows than this machine holds.

The model is small. Work that reads or writes rows costs so many seconds of a core for each; a cluster shares it among
its cores, loses some of it to shuffling, and needs a while for anything at all. What is measured is taken from the
results of `make bench` and `make measure-spark`.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results.json"
FIGURES = ROOT / "integrations" / "spark" / "figures.json"
PAGE = ROOT / "docs" / "scaling.md"
NOTES = ROOT / "bench" / "scaling.md"
SIZES = [10**6, 10**7, 10**8, 10**9, 10**10]
CORES_HERE = 2
CLUSTERS = (16, 256)
SHARED = 0.7  # of a core's work that is left of it in a cluster, by a guess
START = 20.0  # seconds that a cluster needs for anything, by a guess on the safe side
ROW_BYTES = 150  # of a mart's row in Postgres, its key's index included; of the benchmark's films


@dataclass(frozen=True)
class Rates:
    """Seconds for a row, on the machine that it was measured on."""

    load: float
    compare: float
    change: float

    @classmethod
    def of_postgres(cls) -> "Rates":
        """A million films; 1% of them changed, live."""
        parts = json.loads(RESULTS.read_text())["parts"]
        films, changed = parts["films"]["medians"], parts["changed"]["medians"]
        live = next(value for name, value in changed.items() if name.startswith("live"))
        return cls(films["vitrina first load"] / 1e6, films["vitrina nothing changed"] / 1e6, live / 1e4)


@dataclass(frozen=True)
class Cluster:
    """An engine inside the lake, by the largest run of each kind."""

    load: dict[str, float]
    change: dict[str, float]

    @classmethod
    def measured(cls) -> "Cluster":
        """By `make measure-spark`."""
        figures = sorted(json.loads(FIGURES.read_text()), key=lambda each: each["rows"])
        named = {each["what"].rpartition(": ")[2]: each for each in figures if each["what"].startswith("lake")}
        return cls(named["first load"], named["1% changed"])

    def seconds(self, figure: dict[str, float], rows: int, cores: int) -> float:
        """Of the same work for so many rows: shared, and never less than it takes to begin."""
        alone = figure["seconds"] * CORES_HERE / figure["rows"]
        return START + rows * alone / (cores * SHARED)


def shown(seconds: float) -> str:
    """As people say it."""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 6_000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 180_000 else f"{seconds / 86400:.0f} days"


def bytes_shown(count: float) -> str:
    """Likewise."""
    for unit in ("MB", "GB"):
        count /= 1000 if unit == "GB" else 1e6
        if count < 1000:
            return f"{count:.0f} {unit}"
    return f"{count / 1000:.1f} TB"


def table(rates: Rates, cluster: Cluster) -> str:
    """A line for each size; what was measured is in bold."""
    few, many = CLUSTERS
    lines = [
        f"| rows | in Postgres | first load | compared, nothing changed | 1% changed, live | Spark: load, {few} cores "
        f"| 1% changed, {few} cores | {many} cores |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rows in SIZES:
        mark = "**" if rows == SIZES[0] else ""
        own = [shown(each * rows) for each in (rates.load, rates.compare)]
        own.append(shown(rates.change * rows / 100))
        theirs = [cluster.seconds(cluster.load, rows, few)]
        theirs += [cluster.seconds(cluster.change, rows, cores) for cores in CLUSTERS]
        cells = [f"10^{len(str(rows)) - 1}", bytes_shown(rows * ROW_BYTES), *(f"{mark}{each}{mark}" for each in own)]
        lines.append(f"| {' | '.join([*cells, *map(shown, theirs)])} |")
    return "\n".join(lines)


def measured() -> str:
    """What was run through Spark here."""
    lines = [
        "| what | rows | seconds | runner, MB | bytes between runner and Spark | load |",
        "|---|---|---|---|---|---|",
    ]
    for each in json.loads(FIGURES.read_text()):
        cells = [each["what"], f"{each['rows']:,}", each["seconds"], each["runner_mb"], f"{each['bytes_from_spark']:,}"]
        lines.append(f"| {' | '.join(map(str, [*cells, round(each['load'])]))} |")
    return "\n".join(lines)


def page() -> str:
    """All of it."""
    tables = {"{table}": table(Rates.of_postgres(), Cluster.measured()), "{measured}": measured()}
    text = NOTES.read_text()
    for name, value in tables.items():
        text = text.replace(name, value)
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE}\n")
