"""What comes of reaching for files: errors of ours, and who is away is remembered."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vitrina.domain.errors import VitrinaError
from vitrina.neighbours import Neighbours


@contextmanager
def reaching(neighbours: Neighbours, who: str, translated: Callable[[OSError], VitrinaError]) -> Iterator[None]:
    """Of a neighbour; none: a folder is nobody."""
    try:
        yield
    except OSError as error:
        found = translated(error)
        if found.neighbour:
            neighbours.lose(found.neighbour, found.message)
        elif who:
            neighbours.hear(who)
        raise found from error
    if who:
        neighbours.hear(who)
