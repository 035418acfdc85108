"""Processes in the background: a pid file and a log each, in `$VITRINA_HOME`."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vitrina.cli import stamps
from vitrina.domain.errors import ConfigError
from vitrina.settings import Settings

START = "starting: vitrina "  # in its log, before all that it says
ERROR = re.compile(r"^error: (.*?)$(?:\n +.*$)*(?:\nremedy: (.*)$)?", re.MULTILINE)


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

    @property
    def port(self) -> int | None:
        """The one that it was told on its command line."""
        told = stamps.arguments(self._stamp)
        return int(told[told.index("--port") + 1]) if "--port" in told else None

    def changes(self, settings: Settings) -> list[str]:
        """The settings that are others now than when it was started, while it is alive."""
        return stamps.changes(self._stamp, settings) if self.pid else []

    def start(self, *arguments: str, settings: Settings, environment: Mapping[str, str] | None = None) -> None:
        """Unless it runs already; with more in its environment than we have. It finds the settings by itself."""
        if self.pid:
            return
        command = [sys.executable, "-m", "vitrina", *arguments]
        with self._open_log() as file:
            file.write(f"{START}{' '.join(arguments)}\n".encode())
            file.flush()
            child = subprocess.Popen(
                command,
                env=os.environ | (environment or {}),
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pid_file.write_text(str(child.pid))
        stamps.write(self._stamp, settings, list(arguments))

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
        for file in (self._pid_file, self._stamp):
            file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-5:]) if self.log.exists() else ""

    def failure(self) -> ConfigError:
        """Why it ended: its own error with its own remedy, if it has said one since it was started."""
        said = self.log.read_text(errors="replace").rpartition(START)[2] if self.log.exists() else ""
        found = ERROR.findall(said)
        if not found:
            return ConfigError(f"{self.name} did not start: {self.last_words()}", f"look at {self.log}")
        message, remedy = found[-1]
        return ConfigError(f"{self.name} did not start: {message.strip()}", remedy.strip())

    @property
    def _pid_file(self) -> Path:
        return self.home / f"{self.name}.pid"

    @property
    def _stamp(self) -> Path:
        return self.home / f"{self.name}.settings"


def all_of(home: Path) -> list[Background]:
    """Every process that was started there."""
    return [Background(home, file.stem) for file in sorted(home.glob("*.pid"))]


def _is_ours(pid: int) -> bool:
    listed = subprocess.run(
        ["ps", "-p", str(pid), "-o", "stat=,command="], capture_output=True, text=True, check=False
    ).stdout.strip()
    return "-m vitrina" in listed and not listed.startswith("Z")
