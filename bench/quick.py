"""`make bench-quick BASE=rev`: in two minutes, does a run take more processor time than it did at a revision?

As `make bench-guard`, the benchmark of both in turns, but of few works, and by the processor time of the server and of
all beside it: a machine that is busy with something else makes it longer by little, and by as much for both. The least
of the rounds is judged, since others only add to it; what seems slower is measured once more before it is called so.
"""

import argparse
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from bench.guard import BASE, ROOT, TURNS, Figures, Side, checked_out
from bench.report import out

PARTS = ("films", "ratings")
MOST, SLACK = 1.1, 0.05  # times the base, and seconds: the kernel counts in hundredths
# Either side, the base too, which need not know of this: what a run of ours took of the processor, in two rows.
PROCESSOR = """
import os
from pathlib import Path
from bench import processes, tables
figures = {}
def spent(ground):
    directory = ground.db.execute(b"SELECT current_setting('data_directory') AS d").fetchone()["d"]
    postmaster = int((Path(directory) / "postmaster.pid").read_text().split()[0])
    return processes.cpu_seconds_of_family(postmaster), sum(os.times()[2:4])
def counted(do):
    def done(self, work):
        before = spent(self.ground)
        took = do(self, work)
        for what, seconds, start in zip(("server", "runner"), spent(self.ground), before):
            figures[f"{work}, {what}"] = seconds - start
        return took
    return done
tables.ByVitrina.do = counted(tables.ByVitrina.do)
"""
COUNTED = PROCESSOR + TURNS.replace("new = done or {", "new = dict(figures) or {")


@dataclass(frozen=True)
class Row:
    """The least processor time of a work, in seconds."""

    work: str
    before: float
    now: float

    @property
    def is_slower(self) -> bool:
        """By more than is allowed."""
        return self.now > self.before * MOST + SLACK


def judge(part: str, before: Figures, now: Figures) -> list[Row]:
    """Of what both did."""
    return [Row(f"{part}: {work}", min(before[work]), min(now[work])) for work in before if work in now]


def compare(part: str, times: int, scale: str, before: Figures, now: Figures) -> list[Row]:
    """A part by both, in turns; figures are added to those that are known."""
    started = [Side.started(tree, part, times, scale, COUNTED) for tree in (BASE, ROOT)]
    with started[0] as base, started[1] as ours:
        base.figures, ours.figures = before, now
        for number in range(times):
            for side in (base, ours) if number % 2 == 0 else (ours, base):
                side.turn()
    return judge(part, before, now)


def measure(part: str, times: int, scale: str) -> list[Row]:
    """Once more if something seems slower."""
    before: Figures = {}
    now: Figures = {}
    rows = compare(part, times, scale, before, now)
    return compare(part, times, scale, before, now) if any(row.is_slower for row in rows) else rows


@contextmanager
def borrowed(revision: str) -> Iterator[None]:
    """The base; where it needs the same packages, with ours, and in seconds."""
    with checked_out(revision, _lend):
        yield


def _lend(base: Path) -> bool:
    lock = "requirements-dev.lock"
    if (base / ".venv").exists() or (base / lock).read_bytes() != (ROOT / lock).read_bytes():
        return False
    venv.create(base / ".venv", symlinks=True)
    [packages] = (base / ".venv" / "lib").glob("python*/site-packages")
    [ours] = (ROOT / ".venv" / "lib").glob("python*/site-packages")
    (packages / "0_own.pth").write_text(f"{base / 'src'}\n")
    (packages / "1_lent.pth").write_text(f"import site; site.addsitedir({str(ours)!r})\n")
    return True


def main() -> None:
    """Measure, print the table, and fail if a row is slower."""
    parser = argparse.ArgumentParser(prog="make bench-quick")
    parser.add_argument("base", help="a revision")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--scale", default="small")
    given = parser.parse_args()
    with borrowed(given.base):
        rows = [row for part in PARTS for row in measure(part, given.times, given.scale)]
    table = Table("work", f"{given.base}, s", "now, s", "at most, s", title="processor time", box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(row.work, f"{row.before:.2f}", f"{row.now:.2f}", f"{row.before * MOST + SLACK:.2f}")
    out.print(table)
    slower = [row.work for row in rows if row.is_slower]
    sys.exit(f"slower than {given.base}: {', '.join(slower)}" if slower else 0)


if __name__ == "__main__":
    main()
