"""A SELECT as text, before anybody who can parse it has seen it."""

from collections.abc import Collection

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal
from vitrina.domain.source_refusals import SourceRefusal

MAX_BYTES = 1_000_000


def check_text(text: str, schemas: Collection[str]) -> str:
    """Without a semicolon at its end. What it is and reads, its engine says once it is open: such sources have
    schemas of their own, and the setting that allows those of Postgres does not name them."""
    del schemas
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ConfigError.of(Refusal.QUERY_TOO_LONG, bytes=MAX_BYTES)
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError.of(Refusal.NUL_CHARACTER if "\0" in text else Refusal.HALF_CHARACTER)
    bare = text.strip().removesuffix(";").strip()
    if not bare:
        raise ConfigError.of(SourceRefusal.QUERY_EMPTY)
    return bare


def wrapped(select: str) -> str:
    """To stand after FROM; the line breaks keep a trailing comment from swallowing the parenthesis."""
    return f"(\n{select}\n)"
