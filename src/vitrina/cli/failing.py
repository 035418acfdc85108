"""What a command that failed says: a sentence and a remedy where the error is one of ours, or a common one."""

import os
import sys

from pydantic import ValidationError
from pydantic_settings import SettingsError

from vitrina.cli.output import ERRORS, say_error
from vitrina.domain.errors import ConfigError


def tell(error: Exception) -> None:
    """Say it; what nobody expected is raised again."""
    if isinstance(error, ERRORS):
        say_error(error)
    elif isinstance(error, ValidationError):
        wrong = "; ".join(f"VITRINA_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        say_error(ConfigError(f"settings: {wrong}", "correct the environment or .env"))
    elif isinstance(error, SettingsError):  # names the field, and not what stands there
        say_error(ConfigError(f"settings: {error}", "correct it in the environment or .env"))
    elif isinstance(error, BrokenPipeError):  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif isinstance(error, OSError):
        say_error(ConfigError(f"{error.filename or 'the system'}: {error.strerror or error}"))
    else:
        raise error
