"""Where the API is and what opens it: given, in the environment, or left by `vitrina up` in `$VITRINA_HOME`."""

import os
from pathlib import Path

from .errors import ClientError
from .transport import GET_TOKEN, is_alive

DEFAULT_URL = "http://127.0.0.1:8765"


def find(url: str | None, token: str | None, home: Path | None) -> tuple[str, str]:
    """URL and token, or a ClientError that says what is missing."""
    home = home or Path(os.environ.get("VITRINA_HOME") or ".vitrina")
    url = find_url(url or os.environ.get("VITRINA_URL"), home)
    token = find_token(token or os.environ.get("VITRINA_TOKEN") or _in_a_file(), home)
    if not url.startswith(("http://", "https://")):
        raise ClientError(f"VITRINA_URL is no address: {url}", f"write {DEFAULT_URL}, for example")
    if not token:
        is_alive(url)
        raise ClientError(f"there is no token for {url}", GET_TOKEN)
    return url, token


def find_url(given: str | None, home: Path) -> str:
    """Where the API is."""
    kept = home / "url"
    return (given or (kept.read_text().strip() if kept.exists() else "") or DEFAULT_URL).rstrip("/")


def find_token(given: str | None, home: Path) -> str:
    """What opens it; empty if there is none."""
    kept = home / "token"
    try:
        return given or kept.read_text().strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ClientError(f"the token in {kept} cannot be read: {error.strerror}", "set VITRINA_TOKEN") from error


def _in_a_file() -> str | None:
    """As containers get it."""
    file = os.environ.get("VITRINA_TOKEN_FILE")
    try:
        return Path(file).read_text().strip() if file else None
    except OSError as error:
        said = f"VITRINA_TOKEN_FILE names {file}, which cannot be read: {error.strerror}"
        raise ClientError(said, "correct it, or set VITRINA_TOKEN") from error
