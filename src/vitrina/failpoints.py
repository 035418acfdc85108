"""Places where a test may have this process killed or stopped: `VITRINA_FAILPOINTS="after bulk=kill:3,…"`.

`kill` and `stop` send the signal to this very process, the third time that it gets there if `:3` is added. Without
the variable a place costs one look at an empty dictionary.
"""

import os
import signal
from itertools import count
from threading import get_ident

ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def _parse(text: str) -> dict[str, tuple[signal.Signals, int]]:
    points = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        kind, _, nth = action.partition(":")
        points[name.strip()] = (ACTIONS[kind], int(nth or 1))
    return points


POINTS: dict[str, tuple[signal.Signals, int]] = {}
_visits: dict[str, "count[int]"] = {}


def arm(text: str) -> None:
    """From here on."""
    POINTS.update(_parse(text))
    _visits.update({name: count(1) for name in POINTS})


arm(os.environ.get("VITRINA_FAILPOINTS", ""))


def reach(name: str) -> None:
    """This place is reached."""
    if name in POINTS:
        action, nth = POINTS[name]
        if next(_visits[name]) == nth:
            signal.pthread_kill(get_ident(), action)  # sent to the process, this thread might get a little further
