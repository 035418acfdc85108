"""Repair and rebuild: one run that works as mode `full` does, whatever the pipeline's mode."""

from collections.abc import Generator
from dataclasses import replace
from functools import partial

from vitrina.adapters.finders.full import FullMode
from vitrina.adapters.job import Job, Mode, Step, StepResult
from vitrina.meta.db import Connection


class RepairMode(Mode):
    """The steps of a full run, each of which leaves the checkpoint where it was.

    That is safe for `incremental`: what changed after its position is read again by the next run, which finds it
    done. Moving the position instead could pass a row whose transaction commits late.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    def steps(self) -> Generator[Step, None, None]:
        """As mode full."""
        for step in FullMode(self.job).steps():
            yield partial(self._keep_position, step)

    def _keep_position(self, step: Step, conn: Connection) -> StepResult:
        return replace(step(conn), position=self.job.position)
