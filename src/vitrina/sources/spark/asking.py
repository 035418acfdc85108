"""Questions to a driver that may have taken them and never answers: no call of Spark Connect has an end of its own."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
SECONDS = 10.0  # for the first answer
END_SECONDS = 10.0  # for a driver to take what ends something
CLOSED = "closed channel"  # so a call fails that comes after
SILENT = "it does not answer"


def answered(question: Callable[[], T], seconds: float) -> T:
    """What it gives, or a TimeoutError; who asks is left behind, and ends with its channel."""
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            answer.set_result(question())
        except BaseException as error:
            answer.set_exception(error)

    Thread(target=ask, name="asking Spark", daemon=True).start()
    return answer.result(seconds)


def is_told(message: Callable[[], object]) -> bool:
    """Whether the driver has taken it, or said why not; else nothing more is to be expected of it."""

    def tell() -> None:
        with suppress(Exception):
            message()

    try:
        answered(tell, END_SECONDS)
    except TimeoutError:
        return False
    return True


def hang_up(client: Any) -> None:
    """Here, which asks nobody: all that is under way ends."""
    with suppress(Exception):
        client._channel.close()
