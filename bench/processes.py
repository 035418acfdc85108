"""Processes that are measured: how long they used a core, and the most memory they had."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TICKS = os.sysconf("SC_CLK_TCK")
KEPT = 3_000  # characters of what a failed process said


@dataclass(frozen=True)
class Done:
    """A process that has ended."""

    code: int
    output: str
    errors: str
    memory_mb: float

    def check(self, what: str) -> "Done":
        """End the benchmark unless it went well."""
        if self.code != 0:
            raise SystemExit(f"{what} failed:\n{self.errors[-KEPT:]}")
        return self


def run(command: Sequence[str | Path], environment: Mapping[str, str]) -> Done:
    """To its end, looking at its memory meanwhile: what the kernel tells afterwards includes who started it."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, env=dict(environment), stdout=output, stderr=errors)
        highest = 0.0
        while process.poll() is None:
            highest = max(highest, memory(process.pid))
            time.sleep(0.02)
        return Done(process.returncode, _all(output), _all(errors), highest)


def memory(pid: int) -> float:
    """The most that a process has had resident, in MB; 0 once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 1024 if "VmHWM:" in status else 0.0


def cpu_seconds(pid: int) -> float:
    """User and system time so far."""
    return sum(_times(pid)[:2]) / TICKS


def cpu_seconds_of_family(pid: int) -> float:
    """Of a process, the children it has, and those that have ended."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (sum(_times(pid)) + sum(sum(_times(int(child))[:2]) for child in children)) / TICKS


def _times(pid: int) -> list[int]:
    """User, system, and both of the children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return [0, 0, 0, 0]
    return [int(field) for field in fields[11:15]]


def _all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
