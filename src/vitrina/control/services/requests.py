"""Requests to runners that are no runs: reconcile, and previews through transforms."""

import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.rows import DictRow

from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Invalid, NotFound
from vitrina.control.services.pipelines import PipelineService
from vitrina.control.services.targets import require_one
from vitrina.domain.pipeline import Pipeline, Plan, members
from vitrina.domain.request import CaptureParams, PreviewParams, RequestKind
from vitrina.inquiries.preview import Preview
from vitrina.meta.repos.editing import EditingRepo
from vitrina.meta.repos.requests import RequestRepo
from vitrina.planning import check_plan, vet_plan

WAIT_SECONDS = 5.0  # for a runner's answer


@dataclass(frozen=True)
class RequestService:
    """Asks, waits a little, and answers with what there is."""

    plane: ControlPlane
    actor: str

    def ask(self, kind: RequestKind, which: str, params: dict[str, Any]) -> UUID:
        """Leave a request for a runner."""
        stored = require_one(PipelineService(self.plane, self.actor).get(which))
        with self.plane.transaction(self.actor) as conn:
            request_id = RequestRepo(conn).ask(kind, stored.id, params, self.actor)
            EditingRepo(conn).audit(self.actor, kind, stored.id, {"request": str(request_id)})
        return request_id

    def capture(self, params: CaptureParams) -> dict[str, Any] | None:
        """What a capture's installation or removal would do, or that it is done, as a runner says; None: none did."""
        with self.plane.transaction(self.actor) as conn:
            request_id = RequestRepo(conn).ask(RequestKind.CAPTURE, None, params.model_dump(mode="json"), self.actor)
            if params.confirmed:
                about = {"request": str(request_id), "source": params.source, "tables": params.tables}
                EditingRepo(conn).audit(self.actor, f"capture-{params.action}", None, about)
        answer = self._answered(request_id)
        return dict(answer) if "digest" in answer else None

    def get(self, request_id: UUID) -> DictRow:
        """How it stands."""
        with self.plane.session() as conn:
            row = RequestRepo(conn).get(request_id)
        if row is None:
            raise NotFound(f"there is no request {request_id}")
        return row

    def last_report(self, which: str) -> DictRow | None:
        """The last comparison that was answered; before there is one, whatever became of the last request."""
        stored = require_one(PipelineService(self.plane, self.actor).get(which))
        with self.plane.session() as conn:
            repo = RequestRepo(conn)
            return repo.report(stored.id, RequestKind.RECONCILE) or repo.latest(stored.id, RequestKind.RECONCILE)

    def reconcile(self, which: str, params: dict[str, Any]) -> DictRow:
        """Ask for a comparison, and wait a little for it."""
        return self.wait(self.ask(RequestKind.RECONCILE, which, params))

    def preview(self, which: str, limit: int) -> dict[str, Any] | DictRow:
        """The first rows: at once for a plain SELECT, by a runner for a plan with transforms.

        A request that is not answered yet is given back as it stands.
        """
        stored = PipelineService(self.plane, self.actor).get(which)
        pipeline = members(Pipeline.parse(stored.config))[0]  # the query is the same for all
        plan = check_plan(pipeline, self.plane.settings, reads_only=True)
        if not plan.transforms:
            return self._look(plan, limit)
        one = str(stored.members[0].id) if stored.members else which
        return self._answered(self.ask(RequestKind.PREVIEW, one, {"limit": limit}))

    def preview_config(self, pipeline: Pipeline, limit: int) -> dict[str, Any] | DictRow:
        """The same for a configuration that is not stored."""
        pipeline = members(pipeline)[0]
        plan = check_plan(pipeline, self.plane.settings, reads_only=True)
        if not plan.transforms:
            return self._look(plan, limit)
        params = {"limit": limit, "pipeline": pipeline.model_dump(mode="json")}
        with self.plane.transaction(self.actor) as conn:
            request_id = RequestRepo(conn).ask(RequestKind.PREVIEW, None, params, self.actor)
        return self._answered(request_id)

    def sample(self, which: str, limit: int) -> dict[str, Any] | DictRow:
        """The first documents of its mart, as a runner sees them; the request as it stands if none answers in time."""
        return self._answered(self.ask(RequestKind.PREVIEW, which, {"limit": limit, "mart": True}))

    def latest(self, which: str) -> DictRow | None:
        """The last request for a comparison, whatever became of it."""
        stored = PipelineService(self.plane, self.actor).get(which)
        with self.plane.session() as conn:
            return RequestRepo(conn).latest(stored.id, RequestKind.RECONCILE)

    def _look(self, plan: Plan, limit: int) -> dict[str, Any]:
        """As the reader, read-only, with a timeout."""
        settings = self.plane.settings
        with self.plane.connections.resolve_reader(plan.source) as reader:
            vet_plan(reader, plan, settings)
            return Preview(reader, plan, settings).of(PreviewParams.parse({"limit": limit}).limit)

    def _answered(self, request_id: UUID) -> dict[str, Any] | DictRow:
        """What a runner says within a few seconds, or the request as it stands."""
        row = self.wait(request_id)
        if row["error"]:
            raise Invalid(row["error"], row["remedy"] or "")
        return row["result"] or row

    def wait(self, request_id: UUID) -> DictRow:
        """Until it is answered or the time is up."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            row = self.get(request_id)
            if row["finished_at"] or time.monotonic() > deadline:
                return row
            time.sleep(0.05)
