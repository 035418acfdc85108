"""The request desk: answers requests that are no runs, on threads of its own, so that neither waits for the other."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any

import structlog

from vitrina.domain.errors import ConfigError, DatabaseLost, LeaseLost, VitrinaError
from vitrina.domain.lifecycle import Status
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.request import AlertParams, CaptureParams, PreviewParams, RequestKind
from vitrina.inquiries.held import show
from vitrina.inquiries.inquiry import Inquiry
from vitrina.inquiries.reconcile import drop_scratch, reconcile
from vitrina.meta.db import cancel
from vitrina.meta.repos.requests import RequestClaim, RequestRepo
from vitrina.planning import check_plan, vet_plan
from vitrina.runner.alerting import answer_test
from vitrina.runner.control import Interrupted, RunControl
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.installing import answer_capture
from vitrina.runner.limits import name_limit
from vitrina.runner.service import Session
from vitrina.sources.connections import Connections

log = structlog.get_logger()
Answer = Callable[[Inquiry, dict[str, Any]], dict[str, Any]]
ANSWERS: dict[str, Answer] = {RequestKind.RECONCILE: reconcile, RequestKind.PREVIEW: show}  # about a pipeline
# One thread each: what a person waits for never queues behind a comparison of millions of rows.
LANES: tuple[tuple[RequestKind, ...], ...] = (
    (RequestKind.PREVIEW, RequestKind.CAPTURE, RequestKind.ALERT),
    (RequestKind.RECONCILE,),
)


@dataclass
class RequestDesk:
    """One lane: one connection to the meta-store, one request at a time."""

    connections: Connections
    identity: Identity
    heartbeat: Heartbeat
    stopping: Event
    kinds: Sequence[str]

    def __post_init__(self) -> None:
        self.settings = self.connections.settings
        self.session = Session(lambda: self.connections.open_warehouse("requests"))

    def work_off(self) -> int:
        """Answer what is asked, oldest first, until nothing is; how many."""
        done = 0
        while not self.stopping.is_set() and self.answer_next():
            done += 1
        return done

    def answer_next(self) -> RequestClaim | None:
        """Claim one request and see it through; None when nothing is asked. Only a lost database passes through."""
        settings, me = self.settings, self.identity
        claim = self._requests().claim(me.id, me.name, settings.lease_seconds, self.kinds, settings.max_crashes)
        if claim:
            self._see_through(claim)
        return claim

    def close(self) -> None:
        """End the session."""
        self.session.close()

    def _requests(self) -> RequestRepo:
        return RequestRepo(self.session.get())

    def _see_through(self, claim: RequestClaim) -> None:
        control = RunControl(self.stopping)
        self.heartbeat.watch_request(claim.token, control)
        try:
            result = self._answer(claim, control)
            self._requests().finish(claim, result)
            log.info("answered", kind=claim.kind, request=str(claim.id), pipeline=claim.name)
        except LeaseLost as error:
            log.warning("request lost", request=str(claim.id), reason=str(error))
        except Interrupted:
            self._leave(claim, "given back: this runner is stopping", lambda repo: repo.give_back(claim))
        except DatabaseLost as error:
            self._after_loss(claim, error)
            raise
        except VitrinaError as error:
            name_limit(error, self.settings)
            self._refuse(claim, error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # as the dispatcher's
            log.exception("unexpected error", kind=claim.kind, request=str(claim.id))
            self._refuse(claim, ConfigError(f"{type(error).__name__}: {error}"))
        finally:
            self.heartbeat.forget_request(claim.token)

    def _answer(self, claim: RequestClaim, control: RunControl) -> dict[str, Any]:
        if claim.kind == RequestKind.CAPTURE:
            return answer_capture(self.connections, self.session.get(), CaptureParams.parse(claim.params))
        if claim.kind == RequestKind.ALERT:
            return answer_test(self.settings, self.session.get(), AlertParams.parse(claim.params))
        pipeline = _pipeline(claim)
        reads_only = claim.kind == RequestKind.PREVIEW and not PreviewParams.parse(claim.params).mart
        plan = check_plan(pipeline, self.settings, reads_only=reads_only)
        self.connections.neighbours.require(plan.source)
        with (
            self.connections.open_warehouse(f"request {claim.kind}") as conn,
            self.connections.resolve_reader(plan.source) as reader,
        ):
            inquiry = Inquiry(
                id=claim.id,
                pipeline=pipeline,
                plan=plan,
                reader=reader,
                conn=conn,
                reading=self.connections.comparing,
                writing=self.connections.writing,
                settings=self.settings,
                running=claim.pipeline_status in (Status.RUNNING, Status.PAUSE_REQUESTED),
                check=control.check,
                fence=lambda conn: RequestRepo(conn).hold(claim),
            )
            try:
                with _cancelled_by(control, partial(cancel, conn), reader.cancel):
                    vet_plan(reader, plan, self.settings)
                    return ANSWERS[claim.kind](inquiry, claim.params)
            finally:
                _drop_scratch(claim, inquiry)

    def _refuse(self, claim: RequestClaim, error: VitrinaError) -> None:
        if self.stopping.is_set():  # most likely our own cancellation
            self._leave(claim, "given back: this runner is stopping", lambda repo: repo.give_back(claim))
        else:
            self._leave(claim, str(error), lambda repo: repo.fail(claim, error.message, error.remedy))

    def _after_loss(self, claim: RequestClaim, error: DatabaseLost) -> None:
        """If the meta-store can be reached, whoever comes next tries again, a few times; if not, the claim expires."""
        try:
            if claim.attempt >= self.settings.max_crashes:
                self._requests().fail(claim, error.message, error.remedy)
            else:
                self._requests().let_go(claim)
        except VitrinaError as reason:
            log.warning("request will expire", request=str(claim.id), reason=str(reason))

    def _leave(self, claim: RequestClaim, said: str, move: Callable[[RequestRepo], None]) -> None:
        log.warning("not answered", kind=claim.kind, request=str(claim.id), reason=said)
        try:
            move(self._requests())
        except LeaseLost as error:
            log.warning("request lost", request=str(claim.id), reason=str(error))


def _pipeline(claim: RequestClaim) -> Pipeline:
    """The one that is stored, or the one that came with the request."""
    if claim.kind == RequestKind.PREVIEW:
        unsaved = PreviewParams.parse(claim.params).pipeline
        if unsaved is not None:
            return Pipeline.parse(unsaved)
    if claim.config is None:
        raise ConfigError("the request names no pipeline", "give pipeline_id, or a whole configuration in params")
    return Pipeline.parse(claim.config)


@contextmanager
def _cancelled_by(control: RunControl, *sessions: Callable[[], None]) -> Iterator[None]:
    """End the statements of these sessions as soon as the request should not go on: one may run for an hour."""
    done = Event()

    def watch() -> None:
        while not done.wait(0.1):
            try:
                control.check()
            except (Interrupted, LeaseLost):
                for end_statement in sessions:
                    end_statement()

    thread = Thread(target=watch, name="request watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _drop_scratch(claim: RequestClaim, inquiry: Inquiry) -> None:
    """What cannot be dropped now is dropped by the next tidying."""
    if claim.kind != RequestKind.RECONCILE or inquiry.conn.closed or inquiry.conn.broken:
        return
    try:
        drop_scratch(inquiry)
    except VitrinaError as error:
        log.warning("scratch table kept", request=str(claim.id), reason=str(error))
