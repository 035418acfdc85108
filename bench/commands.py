"""The command line: processor time of a command, and of what a shell asks to complete one, without the API's."""

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import ground
from bench.report import Options, Report, Target

TIMES = {"tiny": 1, "small": 5, "full": 11}
PROGRAM = Path(sys.executable).parent / "vitrina"
PIPELINE = "name: films\nsource_query: SELECT 1 AS film_id\ntarget_table: analytics.films\nkey: [film_id]\n"
COMMANDS = (
    *("--help", "list", "status films", "run films", "pause films", "apply films.yaml --yes", "export", "schema"),
    *("token list", "migrate", "roles", "capture status", "logs --lines 1", "doctor", "up --help", "demo --help"),
)
COMPLETED = ("vitrina ru", "vitrina run fi")
MOST, MOST_COMPLETED = 0.4, 0.2


def measure(options: Options) -> Report:
    """Each command several times, one at a time, on a stack that is up; the least, as others here add to it."""
    times = TIMES[options.scale]
    with _stack(ground.HOME / "commands") as environment:
        commands = {f"vitrina {line}": _seconds(line.split(), environment, times) for line in COMMANDS}
        completed = {f"completion of `{line}`": _seconds([], environment | _asked(line), times) for line in COMPLETED}
    measured = commands | completed
    targets = [
        Target.at_most("any command, s of processor time", max(commands.values()), MOST),
        Target.at_most("completion, s of processor time", max(completed.values()), MOST_COMPLETED),
    ]
    rows = [[name, f"{seconds:.2f}"] for name, seconds in measured.items()]
    return Report("The command line", ["what", "processor time, s"], rows, targets, measured, {})


@contextmanager
def _stack(home: Path) -> Iterator[dict[str, str]]:
    """An embedded Postgres and an API, with one pipeline."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "films.yaml").write_text(PIPELINE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VITRINA_")}
    environment |= {"VITRINA_HOME": str(home / "stack"), "PWD": str(home)}
    _call(["up", "--port", str(_free_port())], environment)
    try:
        _call(["apply", "films.yaml", "--yes"], environment)
        yield environment
    finally:
        _call(["down", "--purge"], environment)


def _seconds(arguments: list[str], environment: Mapping[str, str], times: int) -> float:
    _call(arguments, environment)  # what is compiled is compiled
    return min(_once(arguments, environment) for _ in range(times))


def _once(arguments: list[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _call(arguments, environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _call(arguments: list[str], environment: Mapping[str, str]) -> None:
    done = subprocess.run(
        [PROGRAM, *arguments], env=environment, cwd=environment["PWD"], capture_output=True, text=True
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)


def _asked(line: str) -> dict[str, str]:
    """As bash asks for the last word of a line."""
    return {"_VITRINA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
