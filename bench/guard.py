"""`make bench-guard BASE=rev`: is the working tree slower than a revision? The benchmark of both, in turns.

Each has its own server, and a round of the one follows a round of the other: what disturbs the machine for a while
disturbs both, and the medians tell what is left.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from rich import box
from rich.table import Table

from bench.contest import MEMORY
from bench.films import SCALES
from bench.report import out

ROOT = Path(__file__).parents[1]
BASE = ROOT / "bench" / "out" / "base"
PARTS = ("films", "changed", "remote", "transform", "ratings")
MOST, MOST_OF = 1.05, {"transform": 1.1}  # times the base
# What either side runs, the base too, which need not have this file: a round for each line that it is sent.
TURNS = """
import json, sys
from bench import contest, documents, report
from bench.__main__ import PARTS
report.out.file = sys.stderr
def in_turn(do):
    def turn(self, number):
        print(flush=True)
        sys.stdin.readline()
        known = {name: len(values) for name, values in getattr(self, "measured", {}).items()}
        done = do(self, number)
        new = done or {n: v[-1] for n, v in self.measured.items() if len(v) > known.get(n, 0)}
        print(json.dumps(new), flush=True)
        return done
    return turn
contest.Contest._round = in_turn(contest.Contest._round)
documents.Bench.round = in_turn(documents.Bench.round)
PARTS[sys.argv[1]](report.Options(sys.argv[3], int(sys.argv[2]), peers=False))
"""
Figures: TypeAlias = dict[str, list[float]]


@dataclass(frozen=True)
class Row:
    """A work of ours, in seconds."""

    work: str
    before: float
    now: float
    most: float

    @property
    def ratio(self) -> float:
        """Of now to before."""
        return self.now / self.before

    @property
    def is_slower(self) -> bool:
        """By more than is allowed."""
        return self.ratio > self.most


def judge(part: str, before: Mapping[str, Sequence[float]], now: Mapping[str, Sequence[float]]) -> list[Row]:
    """The medians of what both did, but for the floors, memory, and what was counted."""
    ours = [n for n in before if n in now and not n.startswith(("floor ", "sent ")) and not n.endswith(MEMORY)]
    middle, most = statistics.median, MOST_OF.get(part, MOST)
    return [Row(f"{part}: {name}", middle(before[name]), middle(now[name]), most) for name in ours]


@dataclass
class Side:
    """A tree, measuring one part."""

    tree: Path
    process: "subprocess.Popen[str]"
    figures: Figures = field(default_factory=dict)

    @classmethod
    @contextmanager
    def started(cls, tree: Path, part: str, times: int, scale: str, turns: str = TURNS) -> Iterator["Side"]:
        """Up to where its first round would begin."""
        command = [str(tree / ".venv" / "bin" / "python"), "-c", turns, part, str(times), scale]
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(command, cwd=tree, stdin=pipe, stdout=pipe, stderr=quiet, text=True) as process:
            yield cls(tree, process)

    def turn(self) -> None:
        """One round."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise SystemExit(f"the benchmark in {self.tree} has ended early; run it there to see why")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        for name, value in json.loads(self.process.stdout.readline() or "{}").items():
            self.figures.setdefault(name, []).append(value)


def compare(part: str, times: int, scale: str) -> list[Row]:
    """A part of the benchmark by both; who begins alternates too."""
    with Side.started(BASE, part, times, scale) as before, Side.started(ROOT, part, times, scale) as now:
        for number in range(times):
            for side in (before, now) if number % 2 == 0 else (now, before):
                side.turn()
    return judge(part, before.figures, now.figures)


@contextmanager
def checked_out(revision: str, lend: Callable[[Path], bool] = lambda _: False) -> Iterator[None]:
    """The base, with an environment of its own unless it is lent one."""
    subprocess.run(["git", "worktree", "add", "--detach", "--force", BASE, revision], cwd=ROOT, check=True)
    try:
        if not lend(BASE):
            subprocess.run(["make", "--silent", ".venv/.ready"], cwd=BASE, check=True)
        yield
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", BASE], cwd=ROOT, check=True)


def main() -> None:
    """Measure, print the table, and fail if a row is slower."""
    parser = argparse.ArgumentParser(prog="make bench-guard")
    parser.add_argument("base", help="a revision")
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--only", action="append", help="this part alone; may be given more than once")
    given = parser.parse_args()
    with checked_out(given.base):
        rows = [row for part in given.only or PARTS for row in compare(part, given.times, given.scale)]
    table = Table("work", f"{given.base}, s", "now, s", "ratio", "at most", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(row.work, f"{row.before:.3f}", f"{row.now:.3f}", f"{row.ratio:.2f}", str(row.most))
    out.print(table)
    slower = [row.work for row in rows if row.is_slower]
    sys.exit(f"slower than {given.base}: {', '.join(slower)}" if slower else 0)


if __name__ == "__main__":
    main()
