"""`make test-steady`: the suite again and again, while others keep every core busy. What ever failed is listed.

A test that fails once in ten rounds is a bug, of the test or of what it tests: the log of its round says how it failed.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOGS = ROOT / ".steady"
SUITE = ["-n", "auto", "--dist", "worksteal", "-m", "not long and not slow and not opensearch"]
BUSY = "while True: pass"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """How many tests ever failed, as the exit code: none is 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--burners", type=int, default=os.cpu_count() or 1, help="0 where others keep the cores busy")
    asked, more = parser.parse_known_args(arguments)
    LOGS.mkdir(exist_ok=True)
    failures: dict[str, list[Path]] = defaultdict(list)
    with busy(asked.burners):
        for number in range(1, asked.rounds + 1):
            log = LOGS / f"round-{number}.log"
            for test in play(number, log, more):
                failures[test].append(log)
    for line in table(failures, asked.rounds):
        print(line)
    return min(len(failures), 1)


@contextmanager
def busy(burners: int) -> Iterator[None]:
    """So many processes that never rest."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(burners)]
    try:
        yield
    finally:
        for burner in started:
            burner.kill()
            burner.wait()


def play(number: int, log: Path, more: Sequence[str]) -> list[str]:
    """One round; the tests that failed in it."""
    began = time.monotonic()
    with log.open("w") as output:
        command = [sys.executable, "-m", "pytest", *SUITE, *more]
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    failed = failed_in(log.read_text(), code)
    print(f"round {number}: {len(failed)} failed, {time.monotonic() - began:.0f} s, {log}", flush=True)
    return failed


def failed_in(said: str, code: int) -> list[str]:
    """By name; a round that ended badly and names nobody has failed as a whole."""
    return sorted(set(FAILED.findall(said))) or (["the round itself"] if code else [])


def table(failures: dict[str, list[Path]], rounds: int) -> list[str]:
    """Each test that ever failed, how often, and where to read about it; the worst first."""
    if not failures:
        return [f"steady: nothing failed in {rounds} rounds"]
    worst = sorted(failures.items(), key=lambda item: (-len(item[1]), item[0]))
    return [f"{len(logs)} of {rounds}  {test}  {', '.join(map(str, logs))}" for test, logs in worst]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
