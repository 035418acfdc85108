"""`vitrina` as a client: the real command line in this process, against a real API and a real runner."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vitrina.cli import app

FILMS = """\
SELECT f.id AS film_id, f.title, f.rating
FROM content.film_work f
"""


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        """All of stdout."""
        return json.loads(self.out)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def vitrina(*arguments: str | Path, expect: int = 0, terminal: bool = False) -> Said:
    """Run a command to its end."""
    out, err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            app([str(argument) for argument in arguments])
        except SystemExit as exit_:
            code = exit_.code or 0
    assert code == expect, (code, out.getvalue(), err.getvalue())
    return Said(out.getvalue(), err.getvalue())


@dataclass
class Folder:
    """A folder of pipelines."""

    path: Path

    def write(self, name: str = "films", **config: Any) -> Path:
        """One file."""
        known = {"name": name, "source_query": FILMS, "target_table": f"analytics.{name}", "key": ["film_id"]}
        file = self.path / f"{name}.yaml"
        file.write_text(yaml.safe_dump({k: v for k, v in (known | config).items() if v is not None}))
        return file
