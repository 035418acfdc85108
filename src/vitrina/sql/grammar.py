"""Postgres' own parser, `postgast`, imported when something is parsed: it takes a tenth of a short command's time."""

from typing import Any


def __getattr__(name: str) -> Any:
    import postgast

    return getattr(postgast, name)
