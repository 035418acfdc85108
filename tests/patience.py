"""How long a test waits before it calls it a failure: for a condition, by one factor for the whole suite.

Deadlines are written for a quiet machine. The factor says how much slower this one is: VITRINA_PATIENCE, or what is
measured when the suite begins, and once more when a wait is about to fail, since others may have come meanwhile.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tools.machine import cores

NAME = "VITRINA_PATIENCE"
STEPS, STEP_SECONDS = 200_000, 0.02  # a loop, and what it takes on the machine that the deadlines are written for
LEAST, MOST = 2.0, 20.0  # the suite itself keeps every core busy
Seen = TypeVar("Seen")


class Unclear(Exception):
    """One line that says what to do."""


def measure() -> float:
    """How many times slower than a quiet machine this is now: by a loop, and by who waits for its cores."""
    began = time.perf_counter()
    sum(range(STEPS))
    sum(number * number for number in range(STEPS))
    looped = (time.perf_counter() - began) / STEP_SECONDS
    crowd = os.getloadavg()[0] / cores()
    return min(MOST, max(LEAST, looped, crowd))


def factor() -> float:
    """As chosen, or as measured by the first who asks, for that process and all that it starts."""
    chosen = os.environ.get(NAME) or os.environ.setdefault(NAME, f"{measure():.1f}")
    try:
        return float(chosen)
    except ValueError:
        raise Unclear(f"{NAME} is a number, such as 5, and not {chosen!r}") from None


def patient(seconds: float) -> float:
    """So long on this machine: for a timeout that somebody else keeps, such as a process that should end."""
    return seconds * factor()


def wait(
    look: Callable[[], Seen], is_it: Callable[[Seen], object] = bool, seconds: float = 10, pause: float = 0.02
) -> Seen:
    """Look until it is so, and give what was seen; fails when the time is up."""
    began = time.monotonic()
    while not is_it(seen := look()):
        waited = time.monotonic() - began
        if waited > patient(seconds):
            assert waited < seconds * measure(), f"waited {waited:.0f} s, and it is still {seen!r}"
        time.sleep(pause)
    return seen


def wait_for(condition: Callable[[], object], seconds: float = 10) -> None:
    """Until it is true; fails when the time is up."""
    wait(condition, bool, seconds)


def is_prompt(took: float, seconds: float) -> bool:
    """Whether it took no longer than promised, on a machine that may be busier than when the suite began."""
    return took < patient(seconds) or took < seconds * measure()


@contextmanager
def promptly(seconds: float) -> Iterator[None]:
    """What is done here takes no longer than that."""
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    assert is_prompt(took, seconds), f"took {took:.1f} s instead of {seconds}"


def stand_still(pid: int) -> None:
    """SIGSTOP, and until each of its threads has met it: on a busy machine one of them may go on for a while."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: all(_state(task) in "TZX" for task in Path(f"/proc/{pid}/task").glob("*")))


def _state(task: Path) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    return "X"


# Of a lease that is to run out soon, and yet not because the machine is busy: the same for all processes of a run.
SHORT_LEASE = max(1.0, factor() / LEAST)


def short_lease() -> float:
    """Of one that is renewed in time, on a machine that may be busier by now than when the suite began."""
    return max(SHORT_LEASE, measure() / LEAST)
