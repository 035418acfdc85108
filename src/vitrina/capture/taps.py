"""Which tap reads the changes of a source: ours, or one that a package has registered under a name of its own."""

from typing import Protocol

from vitrina.capture.changes import Tap
from vitrina.capture.trigger import TriggerTap
from vitrina.capture.wal import WalTap
from vitrina.domain.errors import ConfigError
from vitrina.log import log
from vitrina.plug_ins import brought

CAPTURES = "vitrina.captures"


class TapKind(Protocol):
    """What makes taps: `setup` says which of ours sets the source up for it, `wal` or `trigger`."""

    setup: str

    def __call__(self, conninfo: str, /) -> Tap:
        """A tap for the source there."""


TAPS: dict[str, TapKind] = {"wal": WalTap, "trigger": TriggerTap}


def find_kind(name: str) -> TapKind:
    """The kind of that name. Ours stay ours: what a package registers under the name of one is not used."""
    found = brought(CAPTURES).select(name=name)
    packages = ", ".join(sorted(point.dist.name if point.dist else point.value for point in found))
    if name in TAPS:
        if found:
            log.warning("a tap has the name of a built-in kind and is not used", kind=name, packages=packages)
        return TAPS[name]
    if len(found) != 1:
        raise _refused(name, packages)
    kind: TapKind = found[name].load()
    if getattr(kind, "setup", None) not in TAPS:
        raise ConfigError(f"the tap {name!r} does not say how a source is set up for it", "setup is wal or trigger")
    return kind


def _refused(name: str, packages: str) -> ConfigError:
    if packages:
        return ConfigError(f"several packages bring a tap {name!r}: {packages}", "keep one of them")
    known = sorted({*TAPS, *(point.name for point in brought(CAPTURES))})
    remedy = f"one of {', '.join(known)}; or install the package that brings it, where the runners run"
    return ConfigError(f"there is no kind of capture {name!r}", remedy)
