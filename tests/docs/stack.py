"""The stack that the pages are run on: what a newcomer has after `make demo` and `vitrina up`, in its own folder."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.processes import CLEAN, free_port
from tests.docs import forking
from tests.docs.blocks import Block
from vitrina.domain.pipeline import Pipeline, resolve

ROOT = Path(__file__).parents[2]
TIMEOUT = 600
KEEP = 'declare -px > "$DOCS_STATE"'
IN_A_PIPELINE = {"source_query", "source_table", "tasks"}
OUTSIDE = re.compile(r"^(?:sudo )?(?:pip|uv|docker|helm|kubectl|apt|apt-get|systemctl|crontab) ", re.MULTILINE)
DEFAULT_PORT = "127.0.0.1:8765"


@dataclass
class Stack:
    """A folder that looks like a fresh clone, with the command on its path."""

    folder: Path
    environment: dict[str, str]
    port: str = field(default_factory=free_port)
    server: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def make(cls, folder: Path, **environment: str) -> "Stack":
        """Everything of the project but what a run leaves behind."""
        work, commands = folder / "vitrina", folder / "bin"
        work.mkdir()
        commands.mkdir()
        for file in ROOT.iterdir():
            if file.name not in (".vitrina", ".git", ".env"):
                (work / file.name).symlink_to(file)
        stack = cls(work, {})
        path = f"{commands}:{Path(sys.executable).parent}:{CLEAN['PATH']}"
        ours = {"DOCS_STATE": str(folder / "state"), "DOCS_BIN": str(commands)}
        ours |= {"VITRINA_PORT": stack.port, "VITRINA_POLL_SECONDS": "0.1"}
        stack.environment = CLEAN | ours | {"PATH": path, "COLUMNS": "200"} | environment
        stack.server = forking.install(commands)
        return stack

    def close(self) -> None:
        """Down with it."""
        self.bash("vitrina down --purge")
        if self.server:
            self.server.terminate()
            self.server.wait()

    def begin_page(self) -> None:
        """What the last page exported is forgotten."""
        Path(self.environment["DOCS_STATE"]).write_text("")

    # ── one block ────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, block: Block) -> str:
        """Do what a block says; its output."""
        if block.file:
            (self.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.file).write_text(block.body)
            return ""
        how = {
            "sh": self._sh,
            "shell": self._sh,
            "console": self._console,
            "sql": self._sql,
            "python": self._python,
            "yaml": self._yaml,
        }
        return how[block.kind](block) if block.kind in how else ""

    def _sh(self, block: Block) -> str:
        return self.bash(block.body)

    def _console(self, block: Block) -> str:
        assert block.commands, "a console block has lines that begin with $"
        for command, shown in block.commands:
            compare(shown, self.bash(command, both=True))
        return ""

    def _sql(self, block: Block) -> str:
        return self.bash(f"vitrina psql -v ON_ERROR_STOP=1 <<'SQL'\n{block.body}\nSQL")

    def _python(self, block: Block) -> str:
        return self.bash(f"python - <<'PYTHON'\n{block.body}\nPYTHON")

    def _yaml(self, block: Block) -> str:
        for values in yaml.safe_load_all(block.body):
            if isinstance(values, dict) and IN_A_PIPELINE & values.keys():
                resolve(Pipeline.parse(values))
        return ""

    def bash(self, script: str, *, both: bool = False) -> str:
        """Run it, with what the page has exported so far; what it printed, on both channels if asked."""
        assert not OUTSIDE.search(script), "this changes the machine: <!-- not run: why --> above the fence"
        local = script.replace(DEFAULT_PORT, f"127.0.0.1:{self.port}")
        script = f'[ -f "$DOCS_STATE" ] && . "$DOCS_STATE"\nPATH="$DOCS_BIN:$PATH"\n{local}\n{KEEP}'
        errors = subprocess.STDOUT if both else subprocess.PIPE
        done = subprocess.run(
            ["bash", "-ec", script],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr or ''}"
        return done.stdout


def compare(shown: list[str], printed: str) -> None:
    """Every line that is shown was printed, in order; spaces count as one, `…` as anything."""
    lines = iter(printed.splitlines())
    for line in shown:
        pattern = re.compile(" ".join(_pattern(word) for word in line.strip("… ").split()))
        assert any(pattern.search(" ".join(found.split())) for found in lines), f"not printed: {line}\n{printed}"


def _pattern(word: str) -> str:
    return ".*".join(re.escape(part) for part in word.split("…"))


def shortened(actual: Any, expected: Any) -> Any:
    """What is there of what is expected; lists in full."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        return {name: shortened(actual[name], value) for name, value in expected.items() if name in actual}
    if isinstance(expected, list) and isinstance(actual, list) and len(actual) == len(expected):
        return [shortened(*pair) for pair in zip(actual, expected, strict=True)]
    return actual
