"""A process that does nothing but transforms: `python -m vitrina.transforms.worker`. It can be ended at any time.

It ignores the signals that end a runner in order, since the batch under way is the runner's to give up; and it is
killed by the kernel when the runner is gone, even in the middle of somebody's endless loop.
"""

import fcntl
import os
import resource
import signal
import sys
from socket import socket
from typing import Any

from vitrina.domain.errors import ConfigError
from vitrina.transforms import REGISTRY
from vitrina.transforms.chain import Transformer, load_transforms, resolve_transformer
from vitrina.transforms.frames import Done, Order, Ready, Refused, send, unpack
from vitrina.transforms.lines import traced

MEGABYTE = 1 << 20


def main(channel: socket, lifeline: int) -> None:
    """Load the modules, then answer order by order until the runner has gone."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _die_with(lifeline)
    modules, megabytes = unpack(channel.recv)
    _limit_memory(megabytes)
    send(channel, _begin(modules))
    while True:
        try:
            order = unpack(channel.recv)
        except (EOFError, OSError):
            return
        send(channel, _answer(order))


def _die_with(lifeline: int) -> None:
    """The kernel kills this process when the last writer of that pipe is gone; nobody ever writes to it."""
    if hasattr(fcntl, "F_SETSIG"):  # Linux
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _limit_memory(megabytes: int) -> None:
    if megabytes:
        resource.setrlimit(resource.RLIMIT_DATA, (megabytes * MEGABYTE, megabytes * MEGABYTE))


def _begin(modules: list[str]) -> Ready | Refused:
    try:
        load_transforms(modules)
    except ConfigError as error:
        return Refused(error.message, error.remedy, traced(error))
    return Ready(frozenset(REGISTRY))


def _answer(order: Order) -> Done | Refused:
    try:
        return _carry_out(order)
    except ConfigError as error:
        return Refused(error.message, error.remedy, traced(error) if error.__cause__ else "")
    except MemoryError:
        remedy = "a smaller batch_size, or a larger VITRINA_TRANSFORM_MEMORY_MB"
        return Refused("a batch needs more memory than a transform may have", remedy)
    except BaseException as error:  # SystemExit, CancelledError, … end the run, not the process
        return Refused(f"{type(error).__name__}: {error}", "", traced(error))


def _carry_out(order: Order) -> Done:
    transformer: Transformer = resolve_transformer(order.steps, order.columns, order.key)
    held = transformer.put_through(order.batch)
    result: Any = held.text() if order.give == "text" else held.rows()
    return Done(len(held), result)


if __name__ == "__main__":
    main(socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
