"""What a command that failed says: a sentence and a remedy where the error is one of ours, or a common one."""

import errno
import os
import sys

from vitrina.cli.output import ERRORS, say_error
from vitrina.domain.errors import ConfigError


def tell(error: Exception) -> None:
    """Say it; what nobody expected is raised again."""
    found = error if isinstance(error, ERRORS) else _no_room(error) or _wrong_setting(error)
    if found:
        say_error(found)
    elif isinstance(error, BrokenPipeError):  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif isinstance(error, OSError):
        say_error(ConfigError(f"{error.filename or 'the system'}: {error.strerror or error}"))
    else:
        raise error


def _no_room(error: Exception) -> ConfigError | None:
    """Of a disk, whoever has noticed: a server, or this program."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ConfigError(f"{error.filename or 'the disk'}: {error.strerror}", "free some disk space and try again")
    if "psycopg" not in sys.modules:
        return None
    from psycopg.errors import DiskFull

    if not isinstance(error, DiskFull):
        return None
    return ConfigError(f"Postgres: {error.diag.message_primary or error}", "free some space on its disk and try again")


def _wrong_setting(error: Exception) -> ConfigError | None:
    """Whoever has read settings has imported what reads them; for all others that would take too long."""
    if "pydantic_settings" not in sys.modules:
        return None
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from vitrina.domain.fields import wrong

    if isinstance(error, SettingsError):  # names the field, and not what stands there
        return ConfigError(f"settings: {error}", "correct it in the environment or .env")
    if not isinstance(error, ValidationError):
        return None
    found = {"__".join(map(str, e["loc"])).upper(): wrong(e, quote=False) for e in error.errors()}
    said = "; ".join(f"VITRINA_{name} {message}" for name, message in found.items())
    names = ", ".join(f"VITRINA_{name}" for name in found)
    return ConfigError(f"settings: {said}", f"correct {names} in the environment or .env")
