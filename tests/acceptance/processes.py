"""`vitrina` as a process of its own."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.patience import patient

OURS = ("VITRINA_", "ELASTICSEARCH_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


class Cli:
    """`vitrina` in a folder, with an environment."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def __call__(self, *arguments: str, expect: int = 0) -> str:
        """Run to the end; what it said, on both channels."""
        process = self.start(*arguments)
        try:
            said, _ = process.communicate(timeout=patient(240))
        finally:
            process.kill()
        assert process.returncode == expect, said
        assert "Traceback" not in said, said
        return said

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """To be read from while it runs."""
        return subprocess.Popen(
            [sys.executable, "-m", "vitrina", *arguments],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
