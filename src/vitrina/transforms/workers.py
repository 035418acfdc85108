"""The worker processes of this one: started when first needed, kept warm for the next batch or run, ended when need be.

A transform is somebody's code: it may loop, leak or crash. In a process of its own it costs an attempt of its run.
"""

import atexit
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from socket import AF_UNIX, SOCK_STREAM, socketpair
from threading import Lock
from typing import Any

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.log import log
from vitrina.transforms.frames import Order, Ready, Refused, packed, unpack

GLANCE = 0.1  # seconds between two looks whether the run should go on
BOOT_SECONDS = 60.0
NO_ANSWER = "raise VITRINA_TRANSFORM_TIMEOUT_SECONDS if a batch may take so long, or make batch_size smaller"
Kind = tuple[tuple[str, ...], int, tuple[str, ...]]


@dataclass
class Worker:
    """One process. Whoever has it is alone with it."""

    kind: Kind
    process: subprocess.Popen[bytes] = field(init=False)
    transforms: frozenset[str] | None = None  # that it knows; None until it has said so

    def __post_init__(self) -> None:
        modules, megabytes, path = self.kind
        self._channel, theirs = socketpair(AF_UNIX, SOCK_STREAM)
        listening, self._lifeline = os.pipe()
        handles = (theirs.fileno(), listening)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vitrina.transforms.worker", *map(str, handles)],
            pass_fds=handles,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        )
        theirs.close()
        os.close(listening)
        self._channel.settimeout(GLANCE)
        self._send(packed((list(modules), megabytes)), _Patience(lambda: None, BOOT_SECONDS))

    def greet(self, check: Callable[[], None]) -> None:
        """Wait until it is there; a ConfigError if it cannot load the modules."""
        if self.transforms is not None:
            return
        answer = self._receive(_Patience(check, BOOT_SECONDS))
        if isinstance(answer, Refused):
            raise _refusal(answer)
        assert isinstance(answer, Ready)
        self.transforms = answer.transforms

    def give(self, order: Order, check: Callable[[], None], seconds: float) -> None:
        """A batch to work on; its result has to be taken before the next."""
        self._patience = _Patience(check, seconds)
        self._send(packed(order), self._patience)

    def take(self) -> Any:
        """What has become of it. A RetryableError if it took too long, or the process has died of it."""
        answer = self._receive(self._patience)
        if isinstance(answer, Refused):
            raise _refusal(answer)
        return answer

    def end(self) -> None:
        """At once, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._channel.close()
        os.close(self._lifeline)

    def _send(self, frame: bytes, patience: "_Patience") -> None:
        left = memoryview(frame)
        while left:
            try:
                left = left[self._channel.send(left) :]
            except TimeoutError:
                patience.check()
            except OSError as error:
                raise self._died() from error

    def _receive(self, patience: "_Patience") -> Any:
        def some(most: int) -> bytes:
            while True:
                try:
                    return self._channel.recv(most)
                except TimeoutError:
                    patience.check()

        try:
            return unpack(some)
        except (EOFError, OSError) as error:
            raise self._died() from error

    def _died(self) -> RetryableError:
        self.process.kill()
        code = self.process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return RetryableError(f"the process that transforms {how}", "its output, above, may tell why")


def _refusal(answer: Refused) -> ConfigError:
    if answer.trace:
        log.error("a transform went wrong", exception=answer.trace)
    return ConfigError(answer.message, answer.remedy)


class _Patience:
    """How long somebody waits, and what may call them away."""

    def __init__(self, check: Callable[[], None], seconds: float) -> None:
        self._check, self._seconds = check, seconds
        self._deadline = time.monotonic() + seconds

    def check(self) -> None:
        self._check()
        if time.monotonic() > self._deadline:
            raise RetryableError(f"a transform did not finish its batch within {self._seconds:g} s", NO_ANSWER)


class Pool:
    """Workers at rest, by kind: another set of modules, or another limit, needs another process."""

    def __init__(self) -> None:
        self._idle: dict[Kind, list[Worker]] = defaultdict(list)
        self._lock = Lock()
        atexit.register(self.close)

    def get(self, modules: list[str], megabytes: int, check: Callable[[], None]) -> Worker:
        """One that is warm, or one that was begun, or a new one."""
        kind = _kind(modules, megabytes)
        worker = self._at_rest(kind) or Worker(kind)
        try:
            worker.greet(check)
        except BaseException:
            worker.end()
            raise
        return worker

    def _at_rest(self, kind: Kind) -> Worker | None:
        """One that lives: what it died of while nobody needed it is no run's business."""
        while True:
            with self._lock:
                worker = self._idle[kind].pop() if self._idle[kind] else None
            if worker is None or worker.process.poll() is None:
                return worker
            worker.end()

    def begin(self, modules: list[str], megabytes: int) -> None:
        """Start one, unless one is at rest: somebody will need it soon."""
        kind = _kind(modules, megabytes)
        with self._lock:
            if not self._idle[kind]:
                self._idle[kind].append(Worker(kind))

    def put(self, worker: Worker) -> None:
        """It is done, and good for more."""
        with self._lock:
            self._idle[worker.kind].append(worker)

    def close(self) -> None:
        """End those at rest; who comes later starts others."""
        with self._lock:
            idle = [worker for workers in self._idle.values() for worker in workers]
            self._idle.clear()
        for worker in idle:
            worker.end()


def _kind(modules: list[str], megabytes: int) -> Kind:
    return tuple(modules), megabytes, tuple(filter(None, sys.path))


POOL = Pool()
