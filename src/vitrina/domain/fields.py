"""Which fields of untrusted values are wrong, in words."""

from typing import Any

from pydantic import ValidationError


def wrong_fields(error: ValidationError) -> str:
    """Each wrong field with its path and what is wrong with it."""
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether dictionaries and lists are nested deeper than that; looks level by level, since they may be very deep."""
    level = [value]
    for _ in range(limit + 1):
        level = [child for item in level for child in _children(item)]
    return bool(level)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []
