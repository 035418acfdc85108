"""`vitrina` as a process of its own."""

import os
import socket
import subprocess
import sys
from pathlib import Path

OURS = ("VITRINA_", "ELASTICSEARCH_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


class Cli:
    """`vitrina` in a folder, with an environment."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def __call__(self, *arguments: str, expect: int = 0) -> str:
        """Run to the end; what it said, on both channels."""
        done = subprocess.run(
            [sys.executable, "-m", "vitrina", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == expect, done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        return done.stdout


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
