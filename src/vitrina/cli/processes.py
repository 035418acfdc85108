"""Processes in the background: a pid file and a log each, in `$VITRINA_HOME`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vitrina.domain.errors import ConfigError


@dataclass(frozen=True)
class Background:
    """`vitrina <arguments>`, detached from the terminal, known by a name such as runner-1."""

    home: Path
    name: str

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.home / "logs" / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """Its process if it is alive; a pid that is somebody else's now does not count."""
        try:
            pid = int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if _is_ours(pid) else None

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Unless it runs already; with more in its environment than we have."""
        if self.pid:
            return
        command = [sys.executable, "-m", "vitrina", *arguments]
        with self._open_log() as file:
            child = subprocess.Popen(
                command,
                env=os.environ | (environment or {}),
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pid_file.write_text(str(child.pid))

    def _open_log(self) -> BinaryIO:
        """For nobody else's eyes: it quotes queries and what is wrong with rows."""
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.fdopen(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
        os.fchmod(file.fileno(), 0o600)
        return file

    def stop(self, seconds: float = 60) -> None:
        """Let it end what it is doing, and wait for that."""
        pid = self.pid
        if pid:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + seconds
            while _is_ours(pid):
                if time.monotonic() > deadline:
                    raise ConfigError(f"{self.name}, process {pid}, does not end", f"see {self.log}, or kill -9 {pid}")
                time.sleep(0.05)
        self._pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-5:]) if self.log.exists() else ""

    @property
    def _pid_file(self) -> Path:
        return self.home / f"{self.name}.pid"


def all_of(home: Path) -> list[Background]:
    """Every process that was started there."""
    return [Background(home, file.stem) for file in sorted(home.glob("*.pid"))]


def _is_ours(pid: int) -> bool:
    listed = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat=,command="], capture_output=True, text=True, check=False
    ).stdout.strip()
    return "-m vitrina" in listed and not listed.startswith("Z")
