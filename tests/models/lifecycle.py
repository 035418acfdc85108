"""The lifecycle as a model: what may happen to two pipelines at three runners' hands, against the real tables.

`TRANSITIONS` is the model: it says what each request and each runner's step does to a status, or that it does nothing.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support import Lab
from vitrina.control.plane import ControlPlane
from vitrina.control.problems import Conflict, NotFound, Problem
from vitrina.control.services.pipelines import PipelineService
from vitrina.domain.errors import LeaseLost
from vitrina.domain.lifecycle import TRANSITIONS, Status
from vitrina.domain.run import RunOptions
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.state import Checkpoint, StateRepo
from vitrina.runner.dispatcher import PipelineDispatcher

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"
HELD = (Status.RUNNING, Status.PAUSE_REQUESTED)
NAMES = st.sampled_from(["one", "two"])
PEOPLE = ["run", "pause", "set_enabled", "edit", "delete"]
TIME = ["fall_due", "expire"]
HOLDERS = ["commit", "renew", "succeed", "fail", "stop", "hand_back", "wait"]
STEPS = [*PEOPLE, "run", "run", "pause", *TIME, "expire", "claim", "claim", "work", "work", *HOLDERS]
WAYS: dict[Status, list[str]] = {  # from IDLE to each status
    Status.RUNNING: ["run", "claim"],
    Status.PAUSE_REQUESTED: ["run", "claim", "pause"],
    Status.RUN_REQUESTED: ["run"],
    Status.FAILED: ["run", "claim", "fail"],
    Status.PAUSED: ["pause"],
    Status.IDLE: [],
}
LOOK = """
    SELECT p.name, p.status, p.enabled, s.epoch, s.seq, l.crashes, l.run_id, l.owner IS NOT NULL AS held,
           ARRAY(SELECT r.id FROM etl.etl_runs r WHERE r.pipeline_id = p.id AND r.status = 'RUNNING') AS open
    FROM etl.etl_pipelines p JOIN etl.etl_state s ON s.pipeline_id = p.id JOIN etl.etl_leases l ON l.pipeline_id = p.id
"""


@dataclass
class Modelled:
    """One pipeline, as it should stand."""

    id: UUID
    status: Status = Status.IDLE
    enabled: bool = True
    due: int | None = None  # the order in which it became due
    epoch: int = 0
    seq: int = 0
    run: int | None = None
    expired: bool = False
    crashes: int = 0
    query: str = FILMS

    @property
    def claimable(self) -> bool:
        """Whether a runner may take it that holds nothing of it."""
        return self.enabled and self.due is not None and self.status in TRANSITIONS["claim"]


@dataclass
class Hand:
    """A claim as some runner got it, and how far it believes to be."""

    name: str
    leases: LeaseRepo
    claim: Claim
    seq: int


@dataclass
class Bench:
    """The real parts that all examples share."""

    lab: Lab
    plane: ControlPlane
    dispatcher: PipelineDispatcher
    taken: Counter[tuple[str, Status, Status]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


class Lifecycle(RuleBasedStateMachine):
    """Any order of requests, edits, claims, crashes and ends: legal states only, and every verdict is the model's."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench, self.lab = bench, bench.lab
        self.service = PipelineService(bench.plane, "tester")
        self.model: dict[str, Modelled] = {}
        self.hands: list[Hand] = []
        self.clock = 0

    @initialize(status=st.sampled_from(list(WAYS)), expired=st.booleans())
    def begin(self, status: Status, expired: bool) -> None:
        """One pipeline stands anywhere, the other has just been made."""
        self.lab.sql("DELETE FROM etl.etl_pipelines")
        self.runners = [LeaseRepo(self.lab.db, uuid4(), f"runner {n}", 60) for n in range(3)]
        self._create("one")
        self._create("two")
        for what in [*WAYS[status], *(["expire"] if expired else [])]:
            self._step(what, "one", 0, 0)

    # ── one rule: of several, each example would be drawn without some ───────────────────────────────────────

    @rule(what=st.sampled_from(STEPS), name=NAMES, runner=st.integers(0, 2), which=st.integers(0, 99))
    def step(self, what: str, name: str, runner: int, which: int) -> None:
        self._step(what, name, runner, which)

    def _step(self, what: str, name: str, runner: int, which: int) -> None:
        """Somebody does something: people through the service, time, or a runner with a free slot or with a claim."""
        found = self.model.get(name)
        if what in PEOPLE:
            getattr(self, "_" + what)(name, found)
        elif what in TIME and found:
            getattr(self, "_" + what)(found)
        elif what == "claim":
            self._claim_the_oldest(self.runners[runner])
        elif what == "work" and found:
            self._claim_or_take_over(self.runners[runner], found)
        elif what in HOLDERS and self.hands:
            self._go_on(what, self.hands[-1 - which % 4 * which // 4 % len(self.hands)])

    def _go_on(self, what: str, hand: Hand) -> None:
        """Whoever ever held something, zombies too; mostly the last one to get it."""
        held = self.model.get(hand.name)
        if held and held.run != hand.claim.run_id:
            held = None
        step = {"commit": self._commit, "renew": self._renew}.get(what, partial(self._leave, what))
        step(hand, held)

    # ── people ───────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, name: str, found: Modelled | None) -> None:
        problem = NotFound if found is None else None if found.enabled else Conflict
        if (answer := self._says(problem, "run", name, RunOptions())) and found:
            moved = self._move(found, "request_run")
            assert (answer.changed, answer.status) == (moved, found.status)

    def _pause(self, name: str, found: Modelled | None) -> None:
        problem = NotFound if found is None else Conflict if found.status == Status.FAILED else None
        if (answer := self._says(problem, "pause", name)) and found:
            moved = self._move(found, "request_pause")
            assert (answer.changed, answer.status) == (moved, found.status)

    def _set_enabled(self, name: str, found: Modelled | None) -> None:
        enabled = found is not None and not found.enabled
        if self._says(None if found else NotFound, "set_enabled", name, enabled) and found:
            found.enabled = enabled

    def _edit(self, name: str, found: Modelled | None) -> None:
        """A run does not mind another batch size; what it reads may change only when there is none."""
        self.clock += 1
        query = FILMS if self.clock % 4 else f"{FILMS} OFFSET 0"
        problem = NotFound if found is None else Conflict if found.status in HELD and found.query != query else None
        changes = {"batch_size": self.clock, "source_query": query}
        if (answer := self._says(problem, "patch", name, changes, None)) and found:
            found.query = query
            assert answer[0].config["batch_size"] == self.clock

    def _delete(self, name: str, found: Modelled | None) -> None:
        """A pipeline of that name comes back the next time."""
        if found is None:
            self._create(name)
        elif self._says(Conflict if found.status in HELD else None, "delete", name):
            del self.model[name]

    def _create(self, name: str) -> None:
        config = {"name": name, "source_query": FILMS, "target_table": f"analytics.{name}", "key": ["film_id"]}
        self.model[name] = Modelled(self.lab.add(**config).id)

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _fall_due(self, found: Modelled) -> None:
        if found.status == Status.IDLE and found.due is None:
            self.lab.sql("UPDATE etl.etl_pipelines SET due_at = clock_timestamp() WHERE id = %s", found.id)
            found.due = self._now()

    def _expire(self, found: Modelled) -> None:
        """Its runner has crashed or stands still; what that believes to hold stays in `hands`, and may come back."""
        if found.status in HELD:
            self.lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp() WHERE pipeline_id = %s", found.id)
            found.expired = True

    # ── runners ──────────────────────────────────────────────────────────────────────────────────────────────

    def _claim_the_oldest(self, runner: LeaseRepo) -> None:
        due = [(found.due, name) for name, found in self.model.items() if found.claimable]
        claim = runner.claim()
        assert (claim.name if claim else None) == (min(due)[1] if due else None)
        if claim:
            self._hold(runner, claim, "claim", 0)

    def _claim_or_take_over(self, runner: LeaseRepo, found: Modelled) -> None:
        claim = self.bench.dispatcher.claim(runner, found.id)
        if found.claimable:
            assert claim
            self._hold(runner, claim, "claim", 0)
        elif found.status not in HELD or not found.expired:
            assert claim is None
        elif found.status == Status.PAUSE_REQUESTED or not found.enabled or found.crashes + 1 >= 3:
            assert claim is None
            assert self._move(found, "bury")
            found.epoch, found.run = found.epoch + 1, None
        else:
            assert claim
            self._hold(runner, claim, "reclaim", found.crashes + 1)

    def _hold(self, leases: LeaseRepo, claim: Claim, transition: str, crashes: int) -> None:
        found = self.model[claim.name]
        assert self._move(found, transition)
        found.epoch, found.run, found.expired, found.crashes = found.epoch + 1, claim.run_id, False, crashes
        assert (claim.epoch, claim.seq) == (found.epoch, found.seq)
        self.hands.append(Hand(claim.name, leases, claim, claim.seq))

    def _renew(self, hand: Hand, held: Modelled | None) -> None:
        alive = {hand.claim.run_id: held.status} if held and not held.expired else {}
        assert hand.leases.renew([hand.claim.run_id]) == alive

    def _commit(self, hand: Hand, held: Modelled | None) -> None:
        """The fence asks for the epoch, which is the last holder's until another gets the next one."""
        found, claim = self.model.get(hand.name), hand.claim
        mine = (claim.pipeline_id, claim.epoch, hand.seq)
        passes = found is not None and (found.id, found.epoch, found.seq) == mine
        assert held is None or passes
        assert self._keeps(StateRepo(self.lab.db).fence, *mine, Checkpoint(None, {}, None)) == passes
        if found and passes:
            found.seq, hand.seq = found.seq + 1, hand.seq + 1

    def _leave(self, what: str, hand: Hand, held: Modelled | None) -> None:
        how = "pause" if what == "stop" else what
        reason = ["a reason"] if how in ("fail", "hand_back", "wait") else []
        assert self._keeps(getattr(hand.leases, how), hand.claim, *reason) == (held is not None)
        if held:
            assert self._move(held, how)
            held.run, held.crashes = None, 0
            if how == "wait":  # and whoever it waited for is done
                self.lab.sql("UPDATE etl.etl_pipelines SET due_at = clock_timestamp() WHERE due_at > clock_timestamp()")

    # ── what always holds ────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_tables_say_what_the_model_says(self) -> None:
        rows = {row.pop("name"): row for row in self.lab.db.execute(LOOK).fetchall()}
        assert rows == {name: self._row(found) for name, found in self.model.items()}

    def _row(self, found: Modelled) -> dict[str, Any]:
        assert (found.run is not None) == (found.status in HELD)
        kept = {name: getattr(found, name) for name in ("status", "enabled", "epoch", "seq", "crashes")}
        open_runs = [] if found.run is None else [found.run]
        return kept | {"run_id": found.run, "held": found.run is not None, "open": open_runs}

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────

    def _says(self, problem: type[Problem] | None, method: str, *args: Any) -> Any:
        """What the service answers, or None if it refuses as the model does."""
        try:
            answer = getattr(self.service, method)(*args)
        except (Conflict, NotFound) as refusal:
            answer = refusal
        verdict = type(answer) if isinstance(answer, Problem) else None
        assert verdict == problem, f"{method} says {answer}, the model says {problem}"
        if problem:
            self.bench.refused[f"{method} {problem.__name__}"] += 1
        return None if problem else answer or True

    def _keeps(self, step: Any, *args: Any) -> bool:
        try:
            step(*args)
        except LeaseLost:
            self.bench.refused[step.__name__] += 1
            return False
        return True

    def _move(self, found: Modelled, transition: str) -> bool:
        """By the table; False if it has no such move."""
        new = TRANSITIONS[transition].get(found.status)
        if new is None:
            return False
        self.bench.taken[transition, found.status, new] += 1
        if new != found.status:
            found.due = self._now() if new == Status.RUN_REQUESTED else None
        found.status = new
        return True

    def _now(self) -> int:
        self.clock += 1
        return self.clock
