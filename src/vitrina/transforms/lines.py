"""Where somebody's code went wrong: the line of theirs for the message, all of the way for the log."""

import inspect
import os
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

OURS = __file__.rpartition("transforms")[0]


def line_of(error: BaseException, function: Callable[..., Any] | None = None) -> str:
    """`, at cinema/transforms.py:12`: the innermost line of the function's own file, else of any that is not ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return _at(error.filename, error.lineno or 0)
    own = getattr(inspect.unwrap(function), "__code__", None) if function else None
    lines = [*_lines(error.__traceback__)]
    theirs = [line for line in lines if own and line[0] == own.co_filename] or [*filter(_is_theirs, lines)]
    return _at(*theirs[-1]) if theirs else ""


def traced(error: BaseException) -> str:
    """The traceback, without the steps of ours that led there."""
    cause = error.__cause__ or error
    return "".join(traceback.format_exception(cause)).rstrip()


def _at(file: str, line: int) -> str:
    return f", at {file.removeprefix(os.getcwd() + os.sep)}:{line}"


def _lines(step: TracebackType | None) -> list[tuple[str, int]]:
    return [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(step)]


def _is_theirs(line: tuple[str, int]) -> bool:
    return not line[0].startswith((OURS, "<"))
