"""The mass-delete guard of a run that cannot know beforehand what it will delete: by how much has the mart shrunk?"""

from vitrina.engine.work import Work
from vitrina.meta.db import Connection


class Shrinking:
    """Rows that come make up for rows that go. A large mart takes long to count: that is done only when the deletes
    since the last count could be too many."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.deleted = 0  # since the mart was last counted
        self.before: int | None = None  # rows, when it was first counted
        self.left = 0  # when it was last counted

    def guard(self, deleted: int, conn: Connection) -> None:
        """A batch has deleted so many; a FatalError, before it is committed, if that makes too many."""
        self.deleted += deleted
        if not deleted or not self._may_be_too_many():
            return
        self.left = self.work.count(conn)
        if self.before is None:
            self.before = self.left + deleted
        self.deleted = 0
        self.work.guard_deletes(self.before - self.left, self.before, 1, "this batch was not written")

    def _may_be_too_many(self) -> bool:
        limits = self.work.job.limits
        if self.before is None:
            return self.deleted > limits.max_delete_rows
        gone = self.before - self.left + self.deleted
        return limits.are_many(gone, self.before)
