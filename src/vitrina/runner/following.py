"""The following desk: live marts between two runs. It claims those that nobody follows, and hands them to crews."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from uuid import UUID

import structlog
from psycopg.rows import DictRow

from vitrina.meta.db import Connection
from vitrina.meta.repos.following import FollowingRepo
from vitrina.runner.clock import ClockWatch
from vitrina.runner.crew import Crew
from vitrina.runner.followed import Slow, Trouble
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.runner.service import Session, pause_after
from vitrina.sinks.registry import neighbours_of
from vitrina.sources.connections import Connections

log = structlog.get_logger()
GRACE_SECONDS = 3.0  # for another runner to take its share; then whoever sees it does
CREWS = 2  # threads for the marts of one source in one kind of place
ENOUGH = 8  # marts for one of them, before there is another
MOST_SECONDS = 30.0  # between two attempts at a mart in trouble


@dataclass
class FollowingDesk:
    """Of one runner."""

    connections: Connections
    identity: Identity
    heartbeat: Heartbeat
    stopping: Event
    clock: ClockWatch = field(default_factory=ClockWatch)
    ring: Callable[[], None] = lambda: None  # there may be something to take
    crews: defaultdict[tuple[str, ...], list[Crew]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.session = Session(lambda: self.connections.open_warehouse("following"))
        self._seen: dict[UUID, float] = {}  # free, and since when
        self._troubles: dict[UUID, Trouble] = {}
        self._slow = Slow()

    def work(self) -> None:
        """Whenever there may be something new."""
        self.look(self.session.get())

    def look(self, conn: Connection) -> None:
        """Let go of what is no longer ours, and claim what is free; nothing any more once the runner stops."""
        if self.stopping.is_set():
            return
        repo, held = self._repo(conn), self._held()
        for pipeline_id in held.keys() - (repo.mine(held) if held else set()):
            held[pipeline_id].lose(pipeline_id)
        free = self._free(repo)
        self._seen = {row["id"]: self._seen.get(row["id"], time.monotonic()) for row in free}
        for row in self._chosen(repo, free):
            self._take(row, repo)

    def catch_up(self, conn: Connection, only: UUID | None = None) -> int:
        """In this thread: follow whatever there is to follow, and let go; how many marts."""
        repo = self._repo(conn)
        free = [row for row in self._free(repo) if only in (None, row["id"])]
        waiting = repo.waiting([row["id"] for row in free])
        for row in free:
            if row["id"] in waiting and not self.stopping.is_set():
                self._take(row, repo, threads=False)
        done = len(self._held())
        for crew in self._all():
            crew.catch_up()
        return done

    def stop(self) -> None:
        """Every mart is let go, for others to go on."""
        for crew in self._all():
            crew.join()

    def _all(self) -> Iterator[Crew]:
        for crews in list(self.crews.values()):
            yield from crews

    def _held(self) -> dict[UUID, Crew]:
        return {pipeline_id: crew for crew in self._all() for pipeline_id in crew.held()}

    def _free(self, repo: FollowingRepo) -> list[DictRow]:
        free = repo.free(self._held())
        if any(row["lost"] for row in free) and self.clock.look(repo.conn):
            free = repo.free(self._held())  # the clock had jumped
        return free

    def _chosen(self, repo: FollowingRepo, free: Sequence[DictRow]) -> Iterator[DictRow]:
        """Up to this runner's share; what nobody takes, whoever sees it. Those that may have killed a runner come one
        at a time, once all others here work: they are not to drag the rest down with them."""
        now, share = time.monotonic(), repo.share() if free else 0
        for row in free:
            if row["crashes"] + row["lost"] and any(crew.is_unproven() for crew in self._all()):
                continue
            if len(self._held()) < share or now - self._seen[row["id"]] > GRACE_SECONDS:
                yield row

    def _take(self, row: DictRow, repo: FollowingRepo, *, threads: bool = True) -> None:
        if self._in_the_way(row) or not self._is_time(row["id"]):
            return
        if row["lost"]:
            repo.expel(row)
            reason = self._why_bury(row["crashes"] + 1)
            if reason:
                if repo.bury(row, reason):
                    log.error("given up", pipeline=row["name"], runner=row["runner"], reason=reason)
                return
        taken = repo.take(row["id"])
        if taken:
            claim, crashes = taken
            self._crew_for(row, threads=threads).add(claim, is_suspect=crashes > 0)

    def _why_bury(self, crashes: int) -> str:
        if crashes < self.connections.settings.max_crashes:
            return ""
        return f"the runner was lost {crashes} times in a row while following"

    def _in_the_way(self, row: DictRow) -> bool:
        """Whether somebody whom it needs does not answer: whoever comes back is followed on."""
        neighbours = self.connections.neighbours
        return any(neighbours.down_since(name) for name in neighbours_of(row["source"], row["target"]))

    def _is_time(self, pipeline_id: UUID) -> bool:
        """One that was in trouble is left alone for a while, longer each time."""
        trouble = self._troubles.get(pipeline_id)
        return trouble is None or time.monotonic() - trouble.at > pause_after(trouble.count, MOST_SECONDS)

    def _crew_for(self, row: DictRow, *, threads: bool) -> Crew:
        """One neighbour's trouble is its own: who shares a thread shares source and kind of sink, and is as quick."""
        of_slow = row["id"] in self._slow
        key = (row["source"], *neighbours_of(row["source"], row["target"]), *(["slow"] if of_slow else []))
        crews = self.crews[key]
        least = min(crews, key=lambda crew: len(crew.held()), default=None)
        if least and (len(crews) == CREWS or len(least.held()) < ENOUGH):
            return least
        known = self._troubles, self._slow, self.ring
        shared = self.connections, row["source"], self.identity, self.heartbeat, self.stopping
        crew = Crew(*shared, *known, of_slow=of_slow)
        crews.append(crew)
        if threads:
            crew.start()
        return crew

    def _repo(self, conn: Connection) -> FollowingRepo:
        return FollowingRepo(conn, self.identity.id, self.identity.name, self.connections.settings.lease_seconds)
