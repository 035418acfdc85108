"""`python -m tests.faults.capture_victim CONNINFO FAILPOINTS`: a capture that kills itself where it is told to."""

import sys
from threading import Event

from tests.capturing import EAGER
from tests.patience import SHORT_LEASE
from tests.support import make_connections
from vitrina import failpoints
from vitrina.runner.capturing import CaptureDesk
from vitrina.runner.identity import Identity

POINTS = ("before append", "in append", "after append", "after ack")


def main() -> None:
    """Die where told to."""
    conninfo, points = sys.argv[1:]
    failpoints.arm(points)
    CaptureDesk(make_connections(conninfo, lease_seconds=SHORT_LEASE), Identity(), Event(), EAGER).service().run()


if __name__ == "__main__":
    main()
