"""Which tap reads the changes of a source: ours, or one that a plug-in has registered."""

from importlib.metadata import entry_points

from vitrina.capture.changes import Tap
from vitrina.capture.trigger import TriggerTap
from vitrina.capture.wal import WalTap

CAPTURES = "vitrina.captures"
TAPS: dict[str, type[WalTap] | type[TriggerTap]] = {"wal": WalTap, "trigger": TriggerTap}


def resolve_tap(kind: str, conninfo: str) -> Tap:
    """What reads the changes of a source that is captured in this way: a plug-in's tap for it, else our own."""
    for point in entry_points(group=CAPTURES):
        if point.name == kind:
            plugged: Tap = point.load()(conninfo)
            return plugged
    return TAPS[kind](conninfo)
