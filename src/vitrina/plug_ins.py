"""What other packages bring, by entry point.

To look for it reads the metadata of every package, 20 ms of processor time, and each run asks: it is looked for again
when the path, or a folder on it, is another than before.
"""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points


def brought(group: str) -> EntryPoints:
    """The entry points of a group, of what is installed now."""
    return _brought(group, tuple((folder, _changed(folder)) for folder in sys.path))


@lru_cache(maxsize=16)
def _brought(group: str, _path: tuple[tuple[str, int], ...]) -> EntryPoints:
    return entry_points(group=group)


def _changed(folder: str) -> int:
    """When something was last put there or taken away: a package that comes or goes does both."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0
