"""What a process was started with, setting by setting: enough to tell what has changed, and no secret in it."""

import hashlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from vitrina.settings import Settings, variable

OURS = {"home", "url", "token"}  # of the command line, not of what it starts


def write(file: Path, settings: Settings, arguments: list[str]) -> None:
    """With a key of its own, so that equal secrets of two processes do not look so."""
    key = secrets.token_hex(16)
    file.touch(mode=0o600)
    file.write_text(json.dumps({"arguments": arguments, "key": key, "settings": _hashed(settings, key)}))


def changes(file: Path, settings: Settings) -> list[str]:
    """The variables that have other values now; none where it is not known what they were."""
    kept = _read(file)
    if not kept:
        return []
    before, now = kept["settings"], _hashed(settings, kept["key"])
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def arguments(file: Path) -> list[str]:
    """What it was told on its command line."""
    return list(_read(file).get("arguments", []))


def _read(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _hashed(settings: Settings, key: str) -> dict[str, str]:
    return {
        name: hashlib.blake2b(repr(value).encode(), key=key.encode(), digest_size=12).hexdigest()
        for name, value in _variables(settings)
    }


def _variables(settings: Settings) -> Iterator[tuple[str, object]]:
    for name, value in settings:
        if name not in OURS:
            yield from _parts(variable(name), value)


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Each of what has parts by a variable of its own."""
    if isinstance(value, dict | BaseModel):
        for end, part in value.items() if isinstance(value, dict) else value:
            yield from _parts(f"{name}__{end.upper()}", part)
    else:
        yield name, value.get_secret_value() if isinstance(value, SecretStr) else value
