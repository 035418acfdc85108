"""Which fields of untrusted values are wrong, in words."""

from pydantic import ValidationError


def wrong_fields(error: ValidationError) -> str:
    """Each wrong field with its path and what is wrong with it."""
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
