"""Secrets in files, as containers get them: `VITRINA_TOKEN_FILE` names the file that holds `VITRINA_TOKEN`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from vitrina.domain.errors import ConfigError

END = "_file"


def read_secrets(given: Mapping[str, str | None], is_secret: Callable[[str], bool]) -> dict[str, str | None]:
    """The variables, by their names in lower case: for each that names a secret's file, the secret."""
    known = dict(given)
    for name, file in given.items():
        secret = name.removesuffix(END)
        if secret != name and is_secret(secret):
            del known[name]
            if file:
                known[secret] = _read(name.upper(), secret.upper(), file, is_set=bool(given.get(secret)))
    return known


def _read(name: str, secret: str, file: str, *, is_set: bool) -> str:
    if is_set:
        raise ConfigError(f"{secret} and {name} are both set", "leave one of them out")
    try:
        found = Path(file).read_text()
    except OSError as error:
        said = f"{name} names {file}, which cannot be read: {error.strerror}"
        raise ConfigError(said, f"let the process read it, correct {name}, or set {secret}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{name} names {file}, which is no text", f"put nothing but {secret} into it") from None
    if not found.strip():
        raise ConfigError(f"{name} names {file}, which is empty", f"put {secret} into it")
    return found.rstrip("\r\n")
