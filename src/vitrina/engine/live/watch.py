"""What a live mart depends on besides rows, as it was when its query was judged; and whether it still is.

A verdict holds for the catalogue that it was derived from. So the catalogue is stamped first and the query judged then;
a slice is applied, the stamp taken again, and only if it is the same is the slice what it should be. A stamp is made of
row versions: what was changed and changed back in between shows too.
"""

import time
from collections.abc import Callable
from uuid import UUID

from vitrina.domain.positions import LivePosition
from vitrina.domain.reasons import Reason
from vitrina.engine.live.impact import Impact
from vitrina.meta.db import Connection
from vitrina.meta.repos.dependencies import DependencyRepo, Kept
from vitrina.sources.source import Source
from vitrina.sql.dependencies import Facts, Needs, digest, look
from vitrina.sql.differences import Difference, differences, in_words
from vitrina.sql.stamps import stamp_query, take_stamp

RECENT_SECONDS = 1.0  # a stamp that was compared so shortly ago is not compared again before the next slice
AMID, CUT_SHORT = Reason.CHANGED_AMID.of(), Reason.CUT_SHORT.of()


class Watch:
    """Over these things, from here on."""

    def __init__(self, reader: Source, needs: Needs) -> None:
        self.reader = reader
        self.needs = needs
        self._query = stamp_query(needs)
        self._stamp = take_stamp(reader.catalogue.conn, self._query)
        self._compared = time.monotonic()
        self._broken = False
        self.facts = self._look()
        self.digest = digest(self.facts, needs)

    def holds(self) -> bool:
        """Whether everything is as it was, and was so all the time."""
        self._broken = self._broken or take_stamp(self.reader.catalogue.conn, self._query) != self._stamp
        self._compared = time.monotonic()
        return not self._broken

    def has_held(self, seconds: float = RECENT_SECONDS) -> bool:
        """The same, unless it was asked so shortly ago."""
        return not self._broken and (time.monotonic() - self._compared < seconds or self.holds())

    def why_broken(self) -> str:
        """What is otherwise now, in words."""
        return in_words(differences(self.facts, self._look(), self.needs)) or AMID

    def _look(self) -> Facts:
        conn, settings = self.reader.catalogue
        return look(conn, self.needs, settings)


class Dependence:
    """Of one mart: what was kept with its checkpoint, what there is now, and what of that is news."""

    watch: Watch
    changed: list[Difference]

    def __init__(self, pipeline_id: UUID, meta: Connection, reader: Source) -> None:
        self.pipeline_id = pipeline_id
        self.reader = reader
        self.kept = DependencyRepo(meta).find(pipeline_id)

    def judge(self, understand: Callable[[], Impact]) -> Impact:
        """A verdict, and a watch over all that it depends on that is older than it.

        If there is more to watch than was kept, what was kept is still as it was when that watch began: else a change
        in between would be taken for what was always so.
        """
        while True:
            kept = Watch(self.reader, Needs.parse(self.kept.needs) if self.kept else Needs())
            self.changed = differences(self.kept.facts, kept.facts, kept.needs) if self.kept else []
            self.watch = kept
            while (impact := understand()).view.needs != self.watch.needs:
                self.watch = Watch(self.reader, impact.view.needs)
            if self.watch is kept or kept.holds():
                return impact

    def why_compare(self, position: LivePosition) -> str:
        """What is no longer as it was when the mart was compared, and changes its rows; empty when nothing is."""
        if any(difference.means_comparison for difference in self.changed):
            return in_words(self.changed)
        cut_short = self.kept and position.depends not in (None, self.kept.digest)
        return CUT_SHORT if cut_short else ""

    @property
    def is_news(self) -> bool:
        """Whether what there is now is not what is kept: it changed without harm, or nobody kept it."""
        return self.kept is None or self.kept.digest != self.watch.digest or self.kept.changed is not None

    def keep(self, conn: Connection) -> str:
        """In the transaction of a checkpoint that says the same digest; what was news."""
        watch, news = self.watch, in_words(self.changed)
        self.kept, self.changed = Kept(watch.needs.as_json(), watch.facts, watch.digest), []
        DependencyRepo(conn).keep(self.pipeline_id, self.kept.needs, watch.facts, watch.digest)
        return news
