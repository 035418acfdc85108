"""Somebody else writes to a mart: who took over from us, or who is to be kept out."""

from collections.abc import Iterator

from vitrina.domain.errors import FatalError
from vitrina.engine.job import Step
from vitrina.stores import Superseded


def alone(target: str, steps: Iterator[Step], look_at_lease: Step) -> Iterator[Step]:
    """Steps that end as soon as somebody else is seen to write there; the fence tells whether it was our successor."""
    try:
        yield from steps
    except Superseded as error:
        yield look_at_lease
        raise FatalError(
            f"somebody else writes to {target}: {error.message}",
            "keep others out of it, then run with --rebuild, or repair",
        ) from error
