"""The dependency desk: now and then one runner looks whether what live marts depend on besides rows is as it was, and
wakes those for which it is not. At rest nobody else would notice: no row has changed."""

from dataclasses import dataclass
from threading import Event

import structlog
from psycopg.rows import DictRow

from vitrina.domain.errors import VitrinaError
from vitrina.domain.policy import split_table
from vitrina.domain.positions import LivePosition
from vitrina.engine.live.presence import look_at, why_emptied
from vitrina.meta.db import Connection
from vitrina.meta.repos.dependencies import DependencyRepo
from vitrina.runner.service import Duty, Service, Session
from vitrina.sinks.registry import abilities_of
from vitrina.sources.connections import Connections
from vitrina.sql.dependencies import Facts, Needs, digest, look, together
from vitrina.sql.differences import differences, in_words

log = structlog.get_logger()
LOOKS = 4  # in a period: runners take turns, and do not know when the others will


@dataclass
class DependencyDesk:
    """Looks at the catalogues of the sources, for all live marts."""

    connections: Connections
    stopping: Event

    @property
    def seconds(self) -> float:
        """Between two looks at a source, whoever looks."""
        return self.connections.settings.dependency_seconds

    def service(self) -> Service:
        """On a thread of its own, with a connection only while it looks: a source may keep it waiting."""
        session = Session(lambda: self.connections.open_warehouse("dependencies"))
        complaint = "what live marts depend on cannot be looked at, trying again"
        duty = Duty(lambda: self.look(session.get()), complaint, max(self.seconds / LOOKS, 0.1))
        return Service("dependencies", self.stopping, [duty], [session], may_hang=True)

    def look(self, conn: Connection) -> None:
        """At every source whose turn it is; one that cannot be reached keeps nobody from the others."""
        for source in DependencyRepo(conn).turns(self.seconds):
            try:
                self._look_at(source, conn)
            except VitrinaError as error:
                log.warning("what live marts depend on cannot be looked at", source=source, error=str(error))

    def _look_at(self, source: str, conn: Connection) -> None:
        """One query, for all live marts of the source. One that an older program left is woken to say what it needs."""
        repo = DependencyRepo(conn)
        marts = repo.kept(source)
        needs = {mart["id"]: Needs.parse(mart["needs"]) for mart in marts if mart["needs"]}
        with self.connections.resolve_reader(source) as reader:
            facts = look(reader.catalogue.conn, together(needs.values()), reader.catalogue.settings)
        for mart in marts:
            its = needs.get(mart["id"])
            if its is None:
                repo.wake(mart["id"])
            elif digest(facts, its) != mart["digest"]:
                self._suspect(mart, its, facts, conn)
            elif mart["changed"]:
                repo.suspect(mart["id"], mart["digest"], None)
            self._look_after(mart, conn)

    def _look_after(self, mart: DictRow, conn: Connection) -> None:
        """The mart itself: one that was emptied at rest is woken, and sees to it. That of another system tells nothing
        here; its audit looks."""
        left = LivePosition.parse(mart["checkpoint"]).mart if mart["checkpoint"] else None
        if left is None or not abilities_of(mart["target"]).is_compared_in_place:
            return
        try:
            found = look_at(conn, *split_table(mart["target"]))
        except VitrinaError as error:
            log.warning("a mart cannot be looked at", pipeline=mart["name"], error=str(error))
            return
        if why := why_emptied(left, found):
            log.info("a live mart is to be compared", pipeline=mart["name"], why=why)
            DependencyRepo(conn).wake(mart["id"])

    def _suspect(self, mart: DictRow, needs: Needs, facts: Facts, conn: Connection) -> None:
        """Say what is otherwise, if rows of the mart may be wrong for it, and have it judged anew."""
        repo = DependencyRepo(conn)
        kept = repo.find(mart["id"])
        if kept is None or kept.digest != mart["digest"]:
            return  # it has been judged meanwhile
        found = differences(kept.facts, facts, needs)
        if any(difference.means_comparison for difference in found):
            words = in_words(found)
            if repo.suspect(mart["id"], kept.digest, words):
                log.info("a live mart is to be compared", pipeline=mart["name"], why=words)
        repo.wake(mart["id"])
