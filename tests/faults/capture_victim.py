"""`python -m tests.faults.capture_victim CONNINFO POINT NTH`: a capture that kills itself where it is told to."""

import os
import signal
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

from tests.capturing import EAGER
from tests.support import make_connections
from vitrina.adapters.captures.trigger import TriggerTap
from vitrina.adapters.captures.wal import WalTap
from vitrina.adapters.captures.writer import LogWriter
from vitrina.runner.capturing import CaptureDesk
from vitrina.runner.identity import Identity

POINTS = ("before append", "in append", "between append and ack", "after ack")


def main() -> None:
    """Die where told to."""
    conninfo, point, nth = sys.argv[1:]
    left = [int(nth)]

    def die() -> None:
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(function: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*args: Any) -> Any:
            die()
            return function(*args)

        return dying

    def after(function: Callable[..., Any]) -> Callable[..., Any]:
        def dying(*args: Any) -> Any:
            result = function(*args)
            die()
            return result

        return dying

    if point == "before append":
        LogWriter.append = before(LogWriter.append)  # type: ignore[method-assign]
    elif point == "in append":
        LogWriter._publish = after(LogWriter._publish)  # type: ignore[method-assign]
    elif point == "between append and ack":
        LogWriter.append = after(LogWriter.append)  # type: ignore[method-assign]
    else:
        for tap in (WalTap, TriggerTap):
            tap.acknowledge = after(tap.acknowledge)  # type: ignore[method-assign]
    CaptureDesk(make_connections(conninfo, lease_seconds=1), Identity(), Event(), EAGER).main_loop()


if __name__ == "__main__":
    main()
