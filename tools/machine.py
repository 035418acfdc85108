"""What this machine gives, whatever it says that it has: `python3 tools/machine.py` prints how many cores, and how
many suites of tests may run beside one another.

A container may use less than the machine under it: its control groups say so, or nobody does. So the cores are tried
out too. The standard library alone: this is asked before there is an environment.
"""

import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

NAME = "VITRINA_TEST_CORES"
GROUPS = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
TRIES, TRY_SECONDS = 3, 0.4
MOST_CORES = 32  # that are tried
MOST_LANES = 2  # a suite keeps the cores busy by itself, but for its waits
LANE = 6 << 30  # bytes that a suite uses, temporary files in memory included


def cores() -> int:
    """As chosen, or those that this process may use."""
    return int(os.environ.get(NAME) or 0) or max(1, round(min(_of_process(), *_quotas())))


def tried_cores() -> int:
    """How many one gets when one asks for all: the best of some tries, since somebody else may be busy for a moment."""
    asked = min(cores(), MOST_CORES)
    return max(1, min(asked, math.ceil(max(_try(asked) for _ in range(TRIES)) - 0.3)))


def memory() -> int:
    """Bytes that are free or can be freed; none where nobody says so."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    except FileNotFoundError:
        return 0
    return max(0, min([int(lines["MemAvailable"].split()[0]) * 1024, *_allowances()]))


def lanes(free: int) -> int:
    """Suites beside one another, with so much memory."""
    return max(1, min(MOST_LANES, free // LANE))


def _try(asked: int) -> float:
    began = time.monotonic()
    return sum([_read(pipe) for pipe in [_spin(began + TRY_SECONDS) for _ in range(asked)]]) / TRY_SECONDS


def _spin(until: float) -> int:
    """Of a process that is busy for so long, where it tells what of it it got."""
    reading, writing = os.pipe()
    if not os.fork():
        while time.monotonic() < until:
            pass
        os.write(writing, str(time.process_time()).encode())
        os._exit(0)
    os.close(writing)
    return reading


def _read(pipe: int) -> float:
    with os.fdopen(pipe) as told:
        return float(told.read())


def _of_process() -> int:
    """Cores that it may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas() -> Iterator[float]:
    """Cores that the control groups allow, of either version; where they set none, it is no number, or below zero."""
    for folder in _folders("cpu"):
        with suppress(OSError, ValueError):
            quota, period = (folder / "cpu.max").read_text().split()
            yield int(quota) / int(period)
        with suppress(OSError, ValueError):
            quota = (folder / "cpu.cfs_quota_us").read_text()
            if int(quota) > 0:
                yield int(quota) / int((folder / "cpu.cfs_period_us").read_text())
    yield float("inf")


def _allowances() -> Iterator[int]:
    """Bytes that the control groups leave, of either version; the cache of files can be freed."""
    for folder in _folders("memory"):
        for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
            with suppress(OSError, ValueError):
                yield int((folder / most).read_text()) - int((folder / used).read_text()) + _cache(folder)


def _cache(folder: Path) -> int:
    """Bytes of files that the system keeps in memory as long as nobody needs it."""
    with suppress(OSError):
        said = re.findall(r"^(?:total_)?inactive_file (\d+)$", (folder / "memory.stat").read_text(), re.MULTILINE)
        return max(map(int, said), default=0)
    return 0


def _folders(controller: str) -> Iterator[Path]:
    """Of our group and those above it, as far as they are to be seen from here."""
    with suppress(OSError):
        for line in OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers or controller in controllers.split(","):
                top = GROUPS / controller if controllers else GROUPS
                group = top / path.lstrip("/")
                yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


if __name__ == "__main__":
    print(tried_cores(), lanes(memory()))
