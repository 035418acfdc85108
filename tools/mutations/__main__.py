"""`make mutations`: take out each guard in turn, in a copy of the package; some test must notice.

First the same tests run on an untouched copy, where all must pass. The table is kept in docs/mutations.json.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.mutations.guards import GUARDS, ROOT, Guard

RESULTS = ROOT / "docs" / "mutations.json"
NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*| - .*|)$", re.MULTILINE)
FAILED, PASSED = 1, 0  # exit codes of pytest; others mean that it could not even begin


def main(chosen: Sequence[str]) -> int:
    """How many guards nobody misses, as the exit code."""
    guards = [guard for guard in GUARDS if not chosen or any(part in guard.name for part in chosen)]
    tests = sorted({test for guard in guards for test in guard.tests})
    with copied() as package:
        code, said = run(package, tests)
        if code != PASSED:
            sys.exit(f"the tests fail with every guard in place:\n{said}")
    table = {guard.name: show(guard, *try_without(guard)) for guard in guards}
    keep(table)
    return sum(not row["caught_by"] for row in table.values())


def keep(table: dict[str, dict[str, object]]) -> None:
    """Beside what was found of the guards that were not chosen this time."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    rows = {row["guard"]: row for row in known} | table
    RESULTS.write_text(json.dumps([rows[guard.name] for guard in GUARDS if guard.name in rows], indent=2) + "\n")


def try_without(guard: Guard) -> tuple[list[str], float]:
    """The tests that notice, and the seconds it took."""
    began = time.monotonic()
    with copied() as package:
        guard.remove(package)
        code, said = run(package, ["-x", *guard.tests])  # one that notices is enough
    if code not in (FAILED, PASSED):
        sys.exit(f"without {guard.name} the tests cannot even begin:\n{said}")
    return sorted(set(NOTICED.findall(said))), time.monotonic() - began


def show(guard: Guard, noticed: list[str], seconds: float) -> dict[str, object]:
    """One line of the table."""
    print(f"{guard.name:26} {', '.join(noticed) or 'NOBODY NOTICES'}  ({seconds:.0f} s)", flush=True)
    return {"guard": guard.name, "file": f"src/vitrina/{guard.file}", "caught_by": noticed}


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the package, which Python finds before the real one."""
    with tempfile.TemporaryDirectory(prefix="vitrina-mutation-") as home:
        package = Path(home) / "vitrina"
        shutil.copytree(ROOT / "src" / "vitrina", package, ignore=shutil.ignore_patterns("__pycache__"))
        Path(home).chmod(0o755)
        yield package


def run(package: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """The exit code of pytest, and what it says."""
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-n", "0", "--tb=short", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
