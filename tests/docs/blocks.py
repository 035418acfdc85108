"""A page of the documentation as what can be run of it.

| fence | what is done with it |
|---|---|
| `sh`, `shell` | run by bash; a `json` block right below it is what it must answer, in part |
| `console` | each `$` line is run; the lines below it must appear in its output, in order; `…` stands for anything |
| `sql` | run on the warehouse by `vitrina psql` |
| `yaml`, `python`, `json`, with a first line `# file.ext` | written to that file |
| `yaml` without one | must be readable, and a valid pipeline if it looks like one |
| `python` without one | run |
| `text`, `ini` and such, or none | shown to people only |

`<!-- not run: why -->` above a fence leaves it out. What a page exports stays until its end.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n\n?)?(?P<indent> *)```(?P<kind>\w*)\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"\A# ([\w./-]+\.\w+)\n")
CELL = re.compile(r"^\| `(vitrina [^`]+)` \|", re.MULTILINE)
# They start, stop or follow a whole stack (tests/acceptance/test_cli.py), or need a run under way (tests/contract).
ELSEWHERE = {"demo", "up", "down", "logs", "serve", "reload-config"}
RUN = {"sh", "shell", "console", "sql", "python", "yaml", "json"}
SHOWN = {"", "text", "ini", "toml", "crontab", "promql", "pycon"}


@dataclass(frozen=True)
class Block:
    """One fence."""

    page: str
    line: int
    kind: str
    body: str
    why_not: str | None = None  # it is not run

    @property
    def file(self) -> str | None:
        """The name it is to be written under."""
        named = FILE.match(self.body) if self.kind in ("yaml", "python", "json") else None
        return named[1] if named else None

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """Of a console: each command with the output that is shown; a comment behind it is for people."""
        found: list[tuple[str, list[str]]] = []
        for line in self.body.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            elif line.strip() and found:
                found[-1][1].append(line)
        return found

    def is_right_below(self, other: "Block | None") -> bool:
        """Whether nothing is between the two."""
        return other is not None and self.line == other.line + other.body.count("\n") + 2

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> Iterator[Block]:
    """All of them, in order."""
    for match in FENCE.finditer(text):
        indent = match["indent"]
        body = "".join(line.removeprefix(indent) for line in match["body"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("kind")) + 1
        assert match["kind"] in RUN | SHOWN, f"{page}:{line}: a fence is one of {', '.join(sorted(RUN | SHOWN))}"
        yield Block(page, line, match["kind"], body, match["why"])


def cells(page: str, text: str) -> Iterator[Block]:
    """The commands that begin the rows of a table."""
    for match in CELL.finditer(text):
        if match[1].split()[1] not in ELSEWHERE:
            yield Block(page, text.count("\n", 0, match.start()) + 1, "sh", match[1] + "\n")


def read(path: Path) -> list[Block]:
    """Of a file."""
    return [*blocks(path.name, path.read_text())]
