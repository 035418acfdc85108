"""What the environment and `.env` say of the API, read alone: a client's command needs no other setting, and to read
all of them takes longer than to ask."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vitrina.secret_files import read_secrets

HOME = Path(".vitrina")
NAMES = ("vitrina_home", "vitrina_url", "vitrina_token")


@dataclass(frozen=True)
class Given:
    """Where the API is and what opens it, as far as it is said; `home` has the rest."""

    url: str | None
    token: str | None
    home: Path


def find_given() -> Given:
    """As Settings have it: the environment is above `.env`, and a token may be in a file."""
    found = {name: value for source in (_dotenv(), os.environ) for name, value in _ours(source).items() if value}
    return Given(found.get("vitrina_url"), found.get("vitrina_token"), Path(found.get("vitrina_home") or HOME))


def _ours(source: Mapping[str, str | None]) -> dict[str, str | None]:
    known = {name.lower(): value for name, value in source.items() if name.lower().startswith(NAMES)}
    return read_secrets(known, lambda name: name == "vitrina_token")


def _dotenv() -> dict[str, str | None]:
    if not Path(".env").exists():
        return {}
    from dotenv import dotenv_values  # only here: hardly any folder has one

    return dotenv_values(".env", encoding="utf-8")
