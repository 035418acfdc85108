"""Set up an environment of its own for a lock file: `tools/environment.py .venv requirements-dev.lock --editable .`

It runs before anything is installed, with whatever Python there is. What goes wrong ends in one line with the remedy.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

OLDEST = (3, 11)
ROOM_GB = 1.5
QUIET = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
NETWORK = (
    "check the network; behind a proxy set HTTPS_PROXY, with a mirror set PIP_INDEX_URL (or index-url of pip.conf),"
    " and run make again"
)
REMEDIES = {  # of what is printed, the first that is found
    "No space left": "free some disk space and run make again",
    "ensurepip is not": "install the rest of Python (Debian: apt install python3-venv), remove {venv}, run make again",
    "Permission denied": "make {venv} writable for this user, or remove it and run make again",
    "DO NOT MATCH THE HASHES": "the package is not the one that was pinned: use an index that serves the original",
    "from versions: none": NETWORK,
    "NewConnectionError|Max retries|Name or service|timed out|ConnectTimeout|ProxyError|SSLError|403|407": NETWORK,
}


class Failed(Exception):
    """One line: what is wrong, and the remedy."""


def main(arguments: Sequence[str]) -> None:
    """Make it, or say in one line why not."""
    parser = argparse.ArgumentParser()
    parser.add_argument("venv", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("--editable")
    parser.add_argument("--no-deps", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        check_python(sys.version_info[:2])
        check_room(asked.venv)
        make(asked)
    except Failed as error:
        sys.exit(f"make: {error}")


def check_python(version: Sequence[int]) -> None:
    """Before anything else fails in a stranger way."""
    if tuple(version) < OLDEST:
        found = ".".join(map(str, version))
        raise Failed(f"Vitrina needs Python 3.11 or newer, this is {found} — name another: make PYTHON=python3.12")


def check_room(venv: Path, room: float = ROOM_GB) -> None:
    """pip would notice when it is too late."""
    free = shutil.disk_usage(venv.absolute().parent).free / 1e9
    if free < room:
        problem = f"{free:.1f} GB are free where {venv} would be, and it needs {room:.1f}"
        raise Failed(f"{problem} — free some disk space and run make again")


def make(asked: argparse.Namespace) -> None:
    """The environment, then what is in the lock, then the project itself."""
    python = asked.venv / "bin" / "python"
    if not python.exists():
        run(asked.venv, [sys.executable, "-m", "venv", asked.venv])
    more = ["--no-deps"] if asked.no_deps else []
    run(asked.venv, [python, *QUIET, *more, "--require-hashes", "-r", asked.lock])
    if asked.editable:
        run(asked.venv, [python, *QUIET, "--no-deps", "--no-build-isolation", "-e", asked.editable])


def run(venv: Path, command: Sequence[object]) -> None:
    """What it says is shown if it fails, and then explained."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        raise Failed(explain(done.stdout, venv))


def explain(said: str, venv: Path) -> str:
    """One line for the end of a page of complaints."""
    remedy = next((text for symptom, text in REMEDIES.items() if re.search(symptom, said)), "see the lines above")
    return f"setting up {venv} failed — {remedy.format(venv=venv)}"


if __name__ == "__main__":
    main(sys.argv[1:])
