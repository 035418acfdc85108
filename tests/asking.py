"""Somebody else's client, in a process of its own with nothing of Vitrina's in it, asked by lines of JSON."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class Refused(Exception):
    """What it says is wrong with a question."""


@dataclass
class Asker:
    """One process."""

    process: "subprocess.Popen[str]"

    def __call__(self, question: object) -> list[dict[str, Any]]:
        """The rows."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"])
        return list(answer["rows"])


@contextmanager
def asking(command: Sequence[str | Path]) -> Iterator[Asker]:
    """For the time being."""
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, cwd="/")
    try:
        yield Asker(process)
    finally:
        process.kill()
        process.communicate()
