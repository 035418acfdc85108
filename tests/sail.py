"""Sail for tests: an engine that speaks Spark Connect, in a process of its own."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

PYTHON = Path(__file__).parents[1] / "integrations" / "sail" / ".venv" / "bin" / "python"
PROGRAM = """
import sys
from pysail.spark import SparkConnectServer
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
print("sc://%s:%d" % server.listening_address, flush=True)
sys.stdin.read()
"""
URL = re.compile(r"sc://\S+")


@contextmanager
def running() -> Iterator[str]:
    """The address of a server of its own; it ends with whoever started it."""
    require()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([str(PYTHON), "-c", PROGRAM], text=True, **pipes)  # type: ignore[call-overload]
    assert process.stdout is not None
    try:
        url = next(found[0] for line in process.stdout if (found := URL.search(line)))
        Thread(target=process.stdout.read, daemon=True).start()
        yield url
    finally:
        process.kill()
        process.wait()


def require() -> None:
    """Skip, and say so, unless VITRINA_REQUIRE forbids that."""
    if PYTHON.exists():
        return
    if "sail" in os.environ.get("VITRINA_REQUIRE", "").split(","):
        pytest.fail("VITRINA_REQUIRE has sail, which is not set up: make test-sail")
    pytest.skip("no Sail is set up: make test-sail")


@pytest.fixture(scope="session")
def sail() -> Iterator[str]:
    """One for all tests of a worker."""
    with running() as url:
        yield url
