"""A SELECT as text, before anybody who can parse it has seen it."""

from collections.abc import Collection

from vitrina.domain.errors import ConfigError

MAX_BYTES = 1_000_000


def check_text(text: str, schemas: Collection[str]) -> str:
    """Without a semicolon at its end. What it is and reads, its engine says once it is open: such sources have
    schemas of their own, and the setting that allows those of Postgres does not name them."""
    del schemas
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ConfigError(f"the query is longer than {MAX_BYTES:,} bytes")
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError("the query contains a NUL character, or half a character (a lone surrogate)")
    bare = text.strip().removesuffix(";").strip()
    if not bare:
        raise ConfigError("the query is empty")
    return bare


def wrapped(select: str) -> str:
    """To stand after FROM; the line breaks keep a trailing comment from swallowing the parenthesis."""
    return f"(\n{select}\n)"
