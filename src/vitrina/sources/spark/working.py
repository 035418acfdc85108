"""A session of Spark at work for one run: named, watched, and ended when the run is."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.sources.engine import Errand
from vitrina.sources.spark.asking import CLOSED, SILENT, hang_up, is_told

LOOK_SECONDS = 0.2  # between two looks whether the run should go on
TELL_SECONDS = 10.0  # between two lines about how far it is
OURS = ("0A", "21", "22", "42", "2200")  # beginnings of SQLSTATE: the query's fault
CUT = 400  # characters of what Spark says


@dataclass
class Working:
    """One statement after the other, all under one tag. What a run stops waiting for is ended in the cluster too."""

    session: Any  # of Spark Connect
    source: str
    errand: Errand
    _tasks: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tag = "-".join(("vitrina", *self.errand.name.replace(",", " ").split()))
        self._aside = ThreadPoolExecutor(1, "asking Spark", initializer=self.session.addTag, initargs=(self.tag,))
        self.session.registerProgressHandler(self._hear)

    def run(self, statement: str, what: str) -> list[dict[str, Any]]:
        """The rows of a statement, which are few; `what` is how Spark's pages and our errors call it."""
        named = f"/* {self.errand.name}: {what} */ ".replace("*/", "* /", self.errand.name.count("*/"))
        with reported(self.source, what):
            return self._await(self._aside.submit(self._ask, named + statement.strip()), what)

    def _ask(self, statement: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.session.sql(statement).toArrow().to_pylist()
        return found

    def _await(self, rows: "Future[list[dict[str, Any]]]", what: str) -> list[dict[str, Any]]:
        until, tell_at = monotonic() + self.errand.seconds, monotonic() + TELL_SECONDS
        try:
            while True:
                with suppress(NotYet):
                    return rows.result(LOOK_SECONDS)
                self.errand.check()
                if monotonic() > until:
                    raise ConfigError(f"{what} took more than {self.errand.seconds:.0f} s in {self.source}", SLOW)
                if self._tasks and monotonic() > tell_at:
                    tell_at = monotonic() + TELL_SECONDS
                    self.errand.tell({"what": what, **self._tasks})
        except BaseException:
            self.end()
            raise

    def end(self) -> bool:
        """Whatever it does, in the cluster too; whether the driver was told. Who cannot be told has no session."""
        if is_told(partial(self.session.interruptTag, self.tag)):
            return True
        hang_up(self.session.client)
        return False

    def close(self) -> None:
        """Nothing is left of it."""
        is_there = self.end()
        self._aside.shutdown(wait=False)
        leave(self.session, is_there=is_there)

    def _hear(self, stages: Any, inflight_tasks: int, operation_id: Any, done: bool) -> None:
        del operation_id, done
        tasks = {"tasks": sum(stage.num_tasks for stage in stages or ())}
        self._tasks = tasks | {
            "finished": sum(stage.num_completed_tasks for stage in stages or ()),
            "running": inflight_tasks,
        }


def leave(session: Any, *, is_there: bool) -> None:
    """Without a wait for an answer while the client's own lock is held, which every other session needs."""
    if is_there:
        is_told(session.client.release_session)
    session.release_session_on_close = False
    hang_up(session.client)
    with suppress(Exception):
        session.stop()


SLOW = "give it more resources, or raise VITRINA_ENGINE_SECONDS"


@contextmanager
def reported(source: str, what: str) -> Iterator[None]:
    """Whatever Spark or the way to it says, as an error of ours."""
    try:
        yield
    except VitrinaError:
        raise
    except Exception as error:
        is_known = type(error).__module__.startswith(("pyspark", "grpc"))
        if not (is_known or isinstance(error, TimeoutError) or CLOSED in str(error)):
            raise
        raise _translated(error, source, what) from error


def _translated(error: Exception, source: str, what: str) -> VitrinaError:
    said = _said(error)
    state = str(getattr(error, "getSqlState", lambda: None)() or "")
    if "CommitFailed" in said or "NoSuchTable" in said:
        return RetryableError(f"{what} in {source}: somebody else has taken over what it writes: {said}")
    if state.startswith(OURS) and "CANCEL" not in said:
        return ConfigError(f"{what} in {source}: {said}", "mend the query, or what it reads")
    found = RetryableError(f"{what} in {source}: {said}", "it is tried again")
    if _is_away(error, said):
        found.neighbour = source
    return found


def _is_away(error: Exception, said: str) -> bool:
    """The driver, or the way to it; a session that is gone is another one's matter, which a new attempt has."""
    is_silent = isinstance(error, TimeoutError) or type(error).__module__.startswith("grpc")
    return is_silent or any(word in said for word in ("UNAVAILABLE", "Connection refused", "Channel closed", CLOSED))


def _said(error: Exception) -> str:
    text = (str(error) or SILENT).partition("JVM stacktrace")[0].partition("\n\tat ")[0]
    return " ".join(text.split())[:CUT]
