"""Postgres' own parser, `postgast`, imported when something is parsed: it takes a tenth of a short command's time."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(load(), name)


def load() -> Any:
    """At once, for who will parse: the first run of a process waits for no import then."""
    return import_module("postgast")
