"""Places where a test may have this process killed or stopped: `VITRINA_FAILPOINTS="after send=kill:3,…"`.

`kill` and `stop` send the signal to this very process, the third time that it gets there if `:3` is added. Without
the variable a place costs one look at an empty dictionary.
"""

import os
import signal
from itertools import count
from threading import get_ident

ACTIONS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
PLACES = (
    *("claimed", "before checkpoint", "after checkpoint", "before end", "following"),
    *("shared reading", "before comparison", "following", "live slice", "audit", "audit repair"),
    *("index created", "before shadow", "before send", "after send", "before confirm", "before swap", "after swap"),
    *("before append", "in append", "after append", "after ack"),
    "lake kept",
    "after webhook",
)


def _parse(text: str) -> dict[str, tuple[signal.Signals, int]]:
    points = {}
    for item in filter(None, text.split(",")):
        name, _, action = item.partition("=")
        kind, _, nth = action.partition(":")
        if name.strip() not in PLACES:
            raise ValueError(f"there is no failpoint {name!r}; there are: {', '.join(PLACES)}")
        points[name.strip()] = (ACTIONS[kind], int(nth or 1))
    return points


POINTS: dict[str, tuple[signal.Signals, int]] = {}
_visits: dict[str, "count[int]"] = {}


def arm(text: str) -> None:
    """From here on."""
    POINTS.update(_parse(text))
    _visits.update({name: count(1) for name in POINTS})


def disarm() -> None:
    """All of them."""
    POINTS.clear()


arm(os.environ.get("VITRINA_FAILPOINTS", ""))


def reach(name: str) -> None:
    """This place is reached."""
    if POINTS and (point := POINTS.get(name)):
        action, nth = point
        if next(_visits[name]) == nth:
            signal.pthread_kill(get_ident(), action)  # sent to the process, this thread might get a little further
