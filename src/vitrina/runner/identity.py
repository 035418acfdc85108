"""Who a runner is: new with every process start, so that a restart under the same name is somebody else."""

import os
import socket
from dataclasses import dataclass, field
from uuid import UUID, uuid4


@dataclass(frozen=True)
class Identity:
    """The owner of leases, and its name for people."""

    id: UUID = field(default_factory=uuid4)
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
