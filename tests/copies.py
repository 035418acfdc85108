"""Copies of the tree, to try in them what must not be done here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "images", "vendor", "corpora", "out")  # of benchmarks: has sockets


def copy_tree(into: Path, *more: str) -> Path:
    """The code, its contracts, and what else a change touches."""
    for part in ("src", "pyproject.toml", *more):
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, into / part, ignore=LEFT_OUT)
        else:
            shutil.copy(ROOT / part, into / part)
    return into


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program of this environment, on the code of a copy."""
    program = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    environment = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(program, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of pyproject.toml."""
    return run(tree, "lint-imports", "--no-cache")
