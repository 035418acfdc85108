"""The client: a method per thing that the API can do."""

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

from .errors import Json, NotFound, RequestFailed
from .events import POLL_SECONDS, Event, check_deadline, follow
from .finding import find
from .outcome import Outcome, judge, worst
from .records import (
    Delivery,
    Destination,
    Finding,
    Pipeline,
    Preview,
    Record,
    Report,
    Request,
    Requested,
    Run,
    Runner,
    Source,
    SourceAnswer,
    State,
    Status,
    Version,
    read,
)
from .transport import Transport

PAGE = 200
RETRIES = 4  # about three seconds in all
R = TypeVar("R", bound=Record)


class Client:
    """One API, one token. Safe to use from several threads."""

    def __init__(self, url: str, token: str, *, retries: int = RETRIES) -> None:
        """`retries`: how often to ask again what may be, when nobody answers or it cannot now (503)."""
        self.url = url.rstrip("/")
        self._transport = Transport(self.url, token, retries)

    @classmethod
    def connect(
        cls, url: str | None = None, token: str | None = None, home: Path | None = None, *, retries: int = RETRIES
    ) -> Self:
        """To the API that is given, that VITRINA_URL names, or that `vitrina up` started in `$VITRINA_HOME`."""
        return cls(*find(url, token, home), retries=retries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go."""
        self._transport.http.close()

    # ── anything ─────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, path: str, **params: Any) -> Any:
        """The answer, as JSON; parameters that are None are left out."""
        given = {name: value for name, value in params.items() if value is not None}
        return self._transport.send("GET", path, again=True, params=given)

    def post(self, path: str, body: Json | None = None, *, key: str | None = None, again: bool = False) -> Any:
        """The answer, as JSON. With a key, or if asking `again` does no harm, a lost answer is asked for again."""
        headers = {"Idempotency-Key": key} if key else {}
        return self._transport.send("POST", path, again=again or key is not None, json=body or {}, headers=headers)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────

    def pipelines(
        self,
        *,
        status: str | None = None,
        enabled: bool | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
    ) -> Iterator[Pipeline]:
        """All that match, by name; `name` is a part of it. All labels must be there, a bare name meaning any value."""
        asked = {"status": status, "enabled": enabled, "name": name, "label": list(labels) or None}
        return self._pages(Pipeline, "/pipelines", "after", asked)

    def pipeline(self, which: str) -> Pipeline:
        """One of them; `which` is a name or a uuid, here and everywhere."""
        return read(Pipeline, self.get(pipeline_path(which)))

    def status(self, which: str) -> Status:
        """Where it stands, its last run and, of a live one, how fresh the mart is."""
        return read(Status, self.get(pipeline_path(which, "status")))

    def state(self, which: str) -> State:
        """Its checkpoint."""
        return read(State, self.get(pipeline_path(which, "state")))

    def runs(self, which: str) -> Iterator[Run]:
        """Its runs, newest first."""
        return self._pages(Run, pipeline_path(which, "runs"), "before", {})

    def get_run(self, run_id: int) -> Run:
        """One run."""
        return read(Run, self.get(f"/runs/{run_id}"))

    def versions(self, which: str) -> list[Version]:
        """Its configuration over time, newest first."""
        return [read(Version, row) for row in self.get(pipeline_path(which, "versions"))]

    def runners(self) -> list[Runner]:
        """The runner processes seen within a day."""
        return [read(Runner, row) for row in self.get("/runners")]

    def sources(self) -> list[Source]:
        """The warehouse, and the sources that settings name; none of them is asked."""
        return [read(Source, row) for row in self.get("/sources")]

    def source(self, name: str) -> SourceAnswer:
        """One of them, asked, with its tables in `raw`."""
        return read(SourceAnswer, self.get(f"/sources/{quote(name, safe='')}"))

    def test_source(self, name: str) -> SourceAnswer:
        """Whether it answers, now, and what can be kept of it."""
        return read(SourceAnswer, self.post(f"/sources/{quote(name, safe='')}/test", again=True))

    def destinations(self) -> list[Destination]:
        """Whom runners tell alerts."""
        return [read(Destination, row) for row in self.get("/alerts/destinations")]

    def deliveries(self, destination: str | None = None, limit: int = 50) -> list[Delivery]:
        """The last deliveries of alerts, newest first; to one destination, if one is named."""
        place = f"/destinations/{quote(destination, safe='')}" if destination else ""
        found = self.get(f"/alerts{place}/deliveries", limit=limit)
        return [read(Delivery, row) for row in found["items"]]

    def ask_test_alert(self, destination: str) -> Request:
        """Have a runner tell it that this is a test; `wait_for` it if it is not answered yet."""
        return read(Request, self.post(f"/alerts/destinations/{quote(destination, safe='')}/test"))

    def fresh_as_of(self, which: str) -> datetime | None:
        """The mart has whatever was committed before: by its live position, or its last success. None: never filled."""
        live = self.status(which).live
        if live:
            return live.as_of
        return next((run.started_at for run in self.runs(which) if run.status == "SUCCESS"), None)

    def page_of(self, what: Run | Requested | Status | Pipeline) -> str:
        """The address of its page in the console."""
        place = f"runs/{what.id}" if isinstance(what, Run) else f"pipelines/{quote(what.name, safe='')}"
        return f"{self.url}/console/{place}"

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, config: Json) -> Pipeline:
        """A new pipeline; Invalid, with the findings, if it could not run."""
        return read(Pipeline, self.post("/pipelines", config))

    def edit(self, which: str, changes: Json, version: int | None = None) -> Pipeline:
        """Change some fields, None puts one back to its default; Stale unless it is at the version that was read."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return read(Pipeline, self._transport.send("PATCH", pipeline_path(which), json=changes, headers=headers))

    def apply(self, config: Json) -> Pipeline:
        """Make it so: created if there is none of that id or name, else edited where it differs."""
        try:
            stored = self.pipeline(str(config.get("id") or config["name"]))
        except NotFound:
            return self.create(config)
        left_out: Json = dict.fromkeys(stored.config.keys() - config.keys())
        wanted = {name: value for name, value in (left_out | config).items() if name != "id"}
        return self.edit(str(stored.id), wanted, stored.version)

    def delete(self, which: str) -> None:
        """Forget it and its history; the mart stays."""
        self._transport.send("DELETE", pipeline_path(which))

    def enable(self, which: str) -> Pipeline:
        """Let runners take it."""
        return read(Pipeline, self.post(pipeline_path(which, "enable"), again=True))

    def disable(self, which: str) -> Pipeline:
        """Let no runner take it; a run under way ends as it would."""
        return read(Pipeline, self.post(pipeline_path(which, "disable"), again=True))

    def reload_config(self, which: str) -> int:
        """Let the run under way take the present version at its next batch; which version that is."""
        return int(self.post(pipeline_path(which, "reload-config"), again=True)["version"])

    def validate(self, what: str | Json) -> list[Finding]:
        """What there is to say about a stored pipeline, or about a configuration that is not stored."""
        path = pipeline_path(what, "validate") if isinstance(what, str) else "/validate"
        answer = self.post(path, None if isinstance(what, str) else what, again=True)
        return [read(Finding, row) for row in answer["findings"]]

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        which: str,
        *,
        restart: bool = False,
        rebuild: bool = False,
        allow_deletes: bool = False,
        key: str | None = None,
    ) -> Requested:
        """Ask for a run; while one is requested or under way, that is the one.

        `key`: asking again with it within a day starts nothing and gets the first answer. Without one the client makes
        one up, so that it can itself ask again after a lost answer.
        """
        options = {"restart": restart, "rebuild": rebuild, "allow_deletes": allow_deletes}
        return read(Requested, self.post(pipeline_path(which, "run"), options, key=key or uuid4().hex))

    def repair(self, which: str, *, allow_deletes: bool = False, key: str | None = None) -> Requested:
        """Ask for a run that compares mart and query and converges the keys that differ, whatever the mode."""
        options = {"allow_deletes": allow_deletes}
        return read(Requested, self.post(pipeline_path(which, "repair"), options, key=key or uuid4().hex))

    def pause(self, which: str, *, now: bool = False) -> Requested:
        """Ask for a pause: after the batch under way, or at once if there is none. `now`: cancel what is under way."""
        return read(Requested, self.post(pipeline_path(which, "pause"), {"now": True} if now else None, again=True))

    def outcome(self, requested: Requested) -> Outcome:
        """What has become of a request to run, without waiting. RunDropped: nothing will.

        Of several targets it is that of the first that is still to end, else of one that did not succeed, else of any.
        """
        if requested.members:
            return worst([self.outcome(each) for each in requested.members])
        status = self.status(str(requested.id))
        runs: list[Run] = []
        if status.last_run and status.last_run.id > requested.after_run:
            for run in self.runs(str(requested.id)):
                if run.id <= requested.after_run:
                    break
                runs.insert(0, run)
        return judge(requested, status, runs)

    def wait(self, requested: Requested, timeout: float | None = None) -> Run:
        """The run, once it has succeeded, over all its attempts; RunFailed, RunPaused, RunDropped or TimedOut else."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (found := self.outcome(requested)).ended:
            check_deadline(deadline)
            time.sleep(POLL_SECONDS)
        return found.result()

    def follow(self, run_id: int, deadline: float | None = None) -> Iterator[Event]:
        """What a run says, from its start to its end; `deadline` by time.monotonic()."""
        return follow(self._transport, run_id, deadline)

    # ── asking runners ───────────────────────────────────────────────────────────────────────────────────────

    def reconcile(
        self, which: str, *, sample: int = 20, control_field: str | None = None, timeout: float | None = None
    ) -> Report:
        """Compare mart and query, and wait for the report."""
        asked = self.ask_reconcile(which, sample=sample, control_field=control_field)
        return read(Report, self.wait_for(asked, timeout).result or {})

    def ask_reconcile(self, which: str, *, sample: int = 20, control_field: str | None = None) -> Request:
        """The same without waiting for more than a few seconds."""
        body = {"sample": sample} | ({"control_field": control_field} if control_field else {})
        return read(Request, self.post(pipeline_path(which, "reconcile"), body))

    def last_report(self, which: str) -> Request | None:
        """The last comparison; None: it was never asked for."""
        row = self.get(pipeline_path(which, "reconcile"))
        return read(Request, row) if row else None

    def preview(self, which: str, limit: int = 20, timeout: float | None = None) -> Preview:
        """The first rows, transforms included; writes nothing."""
        row = self.post(pipeline_path(which, "preview"), {"limit": limit}, again=True)
        return read(Preview, self.wait_for(read(Request, row), timeout).result or {} if "kind" in row else row)

    def request(self, request_id: Any) -> Request:
        """A question to a runner, and its answer once there is one."""
        return read(Request, self.get(f"/requests/{request_id}"))

    def wait_for(self, request: Request, timeout: float | None = None) -> Request:
        """The request once it is answered; RequestFailed if a runner could not."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while request.status not in ("DONE", "FAILED"):
            check_deadline(deadline)
            time.sleep(POLL_SECONDS)
            request = self.request(request.id)
        if request.status == "FAILED":
            raise RequestFailed(request.error or f"the {request.kind} failed", request.remedy or "")
        return request

    def _pages(self, kind: type[R], path: str, cursor: str, filters: Json) -> Iterator[R]:
        following = None
        while True:
            page = self.get(path, limit=PAGE, **filters, **{cursor: following})
            yield from (read(kind, row) for row in page["items"])
            following = page["next"]
            if following is None:
                return


def pipeline_path(which: str, *more: str) -> str:
    """The path of a pipeline, by uuid or name."""
    return "/".join(["/pipelines", quote(which, safe=""), *more])
