"""The fault loop: in each round writers change the source, something breaks, all converges, and the oracle is asked."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.faults.rig import Child, Rig
from tests.patience import patient
from tests.wire import COMMIT, Trouble, Wire
from vitrina.domain.pipeline import Pipeline
from vitrina.failpoints import PLACES
from vitrina.meta.repos.pipelines import PipelineRepo

BULK, POST = b"/_bulk", b"POST "
AT_REST = "SELECT count(*) FROM etl.etl_leases WHERE run_id IS NOT NULL"  # not those of followers
BUILDING = ("index created", "before swap", "after swap")


def moment(rng: random.Random) -> None:
    """Any."""
    time.sleep(rng.uniform(0.02, 0.5))


# ── what breaks ──────────────────────────────────────────────────────────────────────────────────────────────


def kill(rig: Rig, rng: random.Random) -> str:
    """A runner is killed at any moment, or both are."""
    moment(rng)
    victims = rig.children if rng.random() < 0.2 else [rng.choice(rig.children)]
    for child in victims:
        child.kill()
    return f"{len(victims)} killed"


def stop(rig: Rig, rng: random.Random) -> str:
    """A runner stands still until another has all that it held, and goes on."""
    moment(rng)
    holders = [child for child in rig.children if rig.holds(child)]
    victim = rng.choice(holders or rig.children)
    victim.stop()
    return replaced(rig, victim)


def replaced(rig: Rig, zombie: Child) -> str:
    """Wait until a stopped runner has lost what it held, and let it go on."""
    held = rig.holds(zombie)
    rig.wait(lambda: not rig.holds(zombie), 20)
    zombie.signal(signal.SIGCONT)
    return f"{held} taken over"


def reach(rig: Rig, rng: random.Random, action: str) -> tuple[Child | None, str]:
    """Arm a place in both runners, until one has got there; nobody, if no work of this round leads there."""
    place, nth = rng.choice(PLACES), rng.randint(1, 3)
    if place in BUILDING:
        rig.lab.request(rng.choice(rig.rebuilt), rebuild=True)
        nth = 1
    for child in rig.children:
        child.order(f"{place}={action}:{nth}")
    deadline = time.monotonic() + 2
    while all(child.is_well for child in rig.children) and time.monotonic() < deadline:
        time.sleep(0.01)
    caught = next((child for child in rig.children if not child.is_well), None)
    for child in rig.children:
        child.order("")
    return caught, f"{place}:{nth}" if caught else f"{place}:{nth} was not reached"


def kill_at(rig: Rig, rng: random.Random) -> str:
    """A runner is killed at a named place."""
    caught, said = reach(rig, rng, "kill")
    if caught is None:
        rng.choice(rig.children).kill()
    return said


def stop_at(rig: Rig, rng: random.Random) -> str:
    """A runner stands still at a named place until another has what it held, and goes on."""
    caught, said = reach(rig, rng, "stop")
    if caught is None or not caught.process.is_alive():
        return f"{said}, {stop(rig, rng)}"
    return f"{said}, {replaced(rig, caught)}"


def cut(rig: Rig, rng: random.Random) -> str:
    """Connections to Postgres are cut, at once or at a COMMIT, with or without its arriving; or nothing passes."""
    at: bytes | int = COMMIT if rng.random() < 0.7 else rng.randint(500, 20_000)
    return disturb(rig.warehouse, rng, at)


def cut_index(rig: Rig, rng: random.Random) -> str:
    """The same for Elasticsearch, at a bulk."""
    return disturb(rig.index, rng, BULK)


def cut_tables(rig: Rig, rng: random.Random) -> str:
    """The same for ClickHouse, at a request."""
    return disturb(rig.tables.wire, rng, POST) if rig.tables else "there is no ClickHouse"


def disturb(wire: Wire, rng: random.Random, at: bytes | int) -> str:
    moment(rng)
    how = rng.choice(["all", "block", "cut", "lose", "lose", "delay", "swallow"])
    if how == "all":
        wire.cut()
    elif how == "block":
        wire.block()
        time.sleep(rng.uniform(0.3, 1.5))
    else:
        before = wire.happened
        wire.trouble = Trouble(how, at, seconds=rng.uniform(0.1, 1.2))
        deadline = time.monotonic() + 1.5
        while wire.happened == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.5))
    wire.heal()
    return f"{how} at {at!r}"


def crash(rig: Rig, rng: random.Random) -> str:
    """The database is shut down without a word, and recovers."""
    moment(rng)
    rig.crash()
    return "recovered"


def restart_index(rig: Rig, rng: random.Random) -> str:
    """Elasticsearch is killed and started again."""
    assert rig.elastic is not None
    moment(rng)
    rig.elastic.kill()
    rig.elastic.start()
    return f"started, {rig.find_index(rig.elastic.url)}"


def restart_tables(rig: Rig, rng: random.Random) -> str:
    """ClickHouse is killed and started again."""
    if rig.tables is None:
        return "there is no ClickHouse"
    moment(rng)
    rig.tables.restart()
    return "started"


# ── what is asked of marts that are followed, whatever else happens ─────────────────────────────────────────────


def run_again(rig: Rig, pipeline: Pipeline) -> None:
    rig.lab.request(pipeline)


def rebuild(rig: Rig, pipeline: Pipeline) -> None:
    rig.lab.request(pipeline, rebuild=True)


def repair(rig: Rig, pipeline: Pipeline) -> None:
    rig.lab.request(pipeline, repair=True)


def pause(rig: Rig, pipeline: Pipeline) -> None:
    PipelineRepo(rig.lab.db).request_pause(pipeline.id)


def switch_off(rig: Rig, pipeline: Pipeline) -> None:
    rig.lab.sql("UPDATE etl.etl_pipelines SET enabled = false WHERE id = %s", pipeline.id)


def edit(rig: Rig, pipeline: Pipeline) -> None:
    """It means the same, and only a run can tell. One that is being run is not edited, as the API has it."""
    text = "UPDATE etl.etl_pipelines SET source_query = %s || ' -- ' || clock_timestamp() WHERE id = %s"
    rig.lab.sql(f"{text} AND status NOT IN ('RUNNING', 'PAUSE_REQUESTED')", pipeline.source_query, pipeline.id)


ASKS = (run_again, rebuild, repair, pause, switch_off, edit)


def ask(rig: Rig, rng: random.Random) -> str:
    """Followed marts are asked for something, one after the other, and sometimes a runner is killed then."""
    asked = []
    for pipeline in rng.sample(rig.followers, 3):
        moment(rng)
        what = rng.choice(ASKS)
        what(rig, pipeline)
        asked.append(f"{pipeline.name}: {what.__name__}")
    if rng.random() < 0.5:
        asked.append(kill(rig, rng))
    moment(rng)
    rig.lab.sql("UPDATE etl.etl_pipelines SET enabled = true WHERE NOT enabled")
    rig.go_on()
    return ", ".join(asked)


Fault = Callable[[Rig, random.Random], str]
DECK: list[Fault] = [
    *[kill] * 10,
    *[stop] * 7,
    *[kill_at] * 14,
    *[stop_at] * 7,
    *[cut] * 6,
    *[cut_index] * 3,
    *[cut_tables] * 3,
]
DECK += [*[crash] * 2, *[ask] * 8, restart_tables]
RARE: list[Fault] = [restart_index]
AWAY: list[Fault] = [restart_index, restart_tables]  # a run may fail that is out of tries before they are back


# ── rounds ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Loop:
    """Rounds that follow from a seed, each by itself."""

    rig: Rig
    seed: int
    kinds: "Counter[str]" = field(default_factory=Counter)
    asked_again: int = 0  # pipelines that failed while a server was away, and were asked for again
    started: float = field(default_factory=time.monotonic)

    def faults(self) -> Iterator[Fault]:
        """Every fault in its share, in an order of this seed's; without end."""
        rng = random.Random(self.seed)
        while True:
            deck = DECK + (RARE if self.rig.elastic else [])
            yield from rng.sample(deck, len(deck))

    def play(self, number: int, fault: Fault) -> str:
        """One round."""
        rng = random.Random(f"{self.seed} {number}")
        chosen = rng.sample(self.rig.asked, 4)
        with self.rig.writing(rng):
            for pipeline in chosen:
                self.rig.lab.request(pipeline, rebuild=rng.random() < 0.1)
            said = fault(self.rig, rng)
        self.rig.revive()
        self._converge(chosen, forgiving=fault in AWAY)
        self._assert_all_well(*chosen, *self.rig.followers)
        self.rig.oracle.forget()
        self.kinds[fault.__name__] += 1
        return said

    def _assert_all_well(self, *pipelines: Pipeline) -> None:
        """A follower may be amid an audit, which writes ahead as all do: what is wrong stays so."""
        deadline = time.monotonic() + patient(10)
        while True:
            try:
                return self.rig.oracle.assert_all_well(*pipelines)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _converge(self, chosen: list[Pipeline], *, forgiving: bool) -> None:
        """What was asked for ends; one more run of each sees the changes that came meanwhile; followers catch up."""
        rig = self.rig
        rig.wait(lambda: all(rig.lab.status(p) in ("IDLE", "FAILED") for p in rig.asked))
        if forgiving:
            self._ask_again()
        rig.run(chosen)
        deadline = time.monotonic() + patient(20)
        while late := [p for p in rig.unequal(chosen) if p.mode == "incremental"]:
            # Somebody's transaction was open: the horizon was before the last changes. The next run sees them.
            assert time.monotonic() < deadline, f"lost: {rig.oracle.explain(late[0])}\n{rig.state()}"
            rig.run(late)
        rig.wait(lambda: not rig.unequal(rig.followers) or self._failed())
        rig.wait(lambda: self._is_closed() and not rig.lab.value(AT_REST))
        assert not (failed := self._failed()), f"failed: {failed}\n{rig.state()}"

    def _is_closed(self) -> bool:
        """Whether no zombie has left anything open; what one has, however late it went on, the next run closes."""
        left = self.rig.oracle.left_open()
        self.rig.run(pipeline for pipeline in self.rig.pipelines.values() if pipeline.id in left)
        return not left

    def _failed(self) -> list[tuple[str, str]]:
        failed = "SELECT name, (SELECT error FROM etl.etl_runs r WHERE r.pipeline_id = p.id ORDER BY id DESC LIMIT 1)"
        return self.rig.lab.sql(f"{failed} FROM etl.etl_pipelines p WHERE status = 'FAILED'")

    def _ask_again(self) -> None:
        """As somebody would once who was away is back: an outage that outlasts the retries fails a run."""
        for pipeline in self.rig.pipelines.values():
            if self.rig.lab.status(pipeline) == "FAILED":
                self.asked_again += 1
                self.rig.lab.request(pipeline)

    def finish(self) -> dict[str, Any]:
        """Everything once more, the runners leave, and what there is to tell."""
        rig = self.rig
        self._converge(rig.asked, forgiving=False)
        self._assert_all_well(*rig.pipelines.values())
        self._assert_clean()
        assert rig.end() == [0, 0]
        assert rig.lab.value("SELECT count(*) FROM etl.etl_captures WHERE owner IS NOT NULL") == 0
        return self.summary()

    def _assert_clean(self) -> None:
        """Every mart is changed once more, by a run that tidies up what was left by those that were lost."""
        rig = self.rig
        rig.lab.sql("UPDATE content.items SET title = 'last', at = clock_timestamp()")
        self._converge(rig.asked, forgiving=False)
        for sink, place in rig.places.items():
            place.assert_clean([place.target(f"{sink}_{mode}") for mode in place.modes])

    def summary(self) -> dict[str, Any]:
        """In figures; an oracle that had found anything lost, doubled or stuck would have ended the loop."""
        sql = "SELECT sum(rows_written), sum(rows_deleted), count(*), count(*) FILTER (WHERE attempt > 1)"
        written, deleted, runs, again = self.rig.lab.sql(f"{sql} FROM etl.etl_runs")[0]
        return {
            "rounds": self.kinds.total(),
            "seed": self.seed,
            "faults": dict(sorted(self.kinds.items())),
            "runs": runs,
            "runs_gone_on_with": again,
            "rows_written": int(written),
            "rows_deleted": int(deleted),
            "lost": 0,
            "duplicates": 0,
            "stuck": 0,
            "asked_again_after_an_outage": self.asked_again,
            "seconds": round(time.monotonic() - self.started),
        }
