"""An event loop beside a test."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def loop_beside() -> Iterator[asyncio.AbstractEventLoop]:
    """On a thread of its own: on the test's one may run already, as that of Playwright does until a worker ends."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
