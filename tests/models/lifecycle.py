"""The lifecycle as a model: what may happen to two pipelines at three runners' hands, one of them live, against the
real tables.

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
from vitrina.domain.positions import LivePosition
from vitrina.domain.run import RunOptions
from vitrina.meta.repos.following import FollowingRepo
from vitrina.meta.repos.leases import Claim, LeaseRepo
from vitrina.meta.repos.state import Checkpoint, StateRepo
from vitrina.runner.dispatcher import PipelineDispatcher

FILMS = "SELECT f.id AS film_id, f.title FROM content.film_work f"
HELD = (Status.RUNNING, Status.PAUSE_REQUESTED)
NAMES = st.sampled_from(["one", "two"])
PEOPLE = ["run", "pause", "set_enabled", "edit", "delete"]
TIME = ["fall_due", "expire"]
HOLDERS = ["commit", "renew", "succeed", "fail", "stop", "hand_back", "wait", "step_down", "let_go"]
STEPS = [*PEOPLE, "run", "run", "pause", *TIME, "expire", "claim", "claim", "work", "work", "follow", *HOLDERS]
WAYS: dict[Status, list[str]] = {  # from IDLE to each status
    Status.RUNNING: ["run", "claim"],
    Status.PAUSE_REQUESTED: ["run", "claim", "pause"],
    Status.RUN_REQUESTED: ["run"],
    Status.FAILED: ["run", "claim", "fail"],
    Status.PAUSED: ["pause"],
    Status.FOLLOWING: ["run", "claim", "commit", "succeed", "follow"],
    Status.IDLE: [],
}
LOOK = """
    SELECT p.name, p.status, p.enabled, s.epoch, s.seq, l.crashes, l.owner IS NOT NULL AS held,
           CASE WHEN l.run_id IS NOT NULL THEN ARRAY[l.run_id, l.attempt] END AS run,
           ARRAY(SELECT ARRAY[r.id, r.attempt] FROM etl.etl_runs r
                 WHERE r.pipeline_id = p.id AND r.status = 'RUNNING' AND r.waiting_since IS NULL) AS open,
           ARRAY(SELECT ARRAY[a.run_id, a.attempt] FROM etl.etl_run_attempts a JOIN etl.etl_runs r ON r.id = a.run_id
                 WHERE r.pipeline_id = p.id AND a.status = 'RUNNING') AS attempts,
           ARRAY(SELECT r.id FROM etl.etl_runs r WHERE r.pipeline_id = p.id AND r.waiting_since IS NOT NULL) AS waiting
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
    run: list[int] | None = None  # and its attempt, which holds the lease
    waiting: list[int] = field(default_factory=list)  # a run that is open, and held by nobody
    holder: LeaseRepo | None = None
    expired: bool = False
    crashes: int = 0
    query: str = FILMS
    live: bool = False
    placed: bool = False  # it has a position to follow from
    follower: UUID | None = None  # who has it, if it is followed

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
    follower: FollowingRepo | None = None  # of one that follows


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
        elif what == "follow" and found:
            self._follow(self.runners[runner], found)
        elif what == "claim":
            self._claim_the_oldest(self.runners[runner])
        elif what == "work" and found:
            self._claim_or_take_over(self.runners[runner], found)
        elif what in HOLDERS and self.hands:
            self._go_on(what, self.hands[-1 - which % 4 * which // 4 % len(self.hands)])

    def _go_on(self, what: str, hand: Hand) -> None:
        """Whoever ever held something, zombies too; mostly the last one to get it."""
        held = self.model.get(hand.name)
        if hand.follower:
            mine = held is not None and held.follower == hand.leases.owner and held.epoch == hand.claim.epoch
            step = {"commit": self._commit, "renew": self._renew_following}.get(what, partial(self._end, what))
            step(hand, held if mine else None)
            return
        if held and held.run != [hand.claim.run_id, hand.claim.attempt]:
            held = None
        if what not in ("step_down", "let_go"):
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
            if not enabled:
                self._unfollow(found, "dismiss")

    def _edit(self, name: str, found: Modelled | None) -> None:
        """A run does not mind another batch size; what it reads may change only when there is none."""
        self.clock += 1
        query = FILMS if self.clock % 4 else f"{FILMS} OFFSET 0"
        problem = NotFound if found is None else Conflict if found.status in HELD and found.query != query else None
        changes = {"batch_size": self.clock, "source_query": query}
        if (answer := self._says(problem, "patch", name, changes, None)) and found:
            if found.query != query:
                self._unfollow(found, "change")
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
        live = {"mode": "live"} if name == "one" else {}
        self.model[name] = Modelled(self.lab.add(**(config | live)).id, live=bool(live))

    # ── time ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _fall_due(self, found: Modelled) -> None:
        if found.status == Status.IDLE and found.due is None:
            self.lab.sql("UPDATE etl.etl_pipelines SET due_at = clock_timestamp() WHERE id = %s", found.id)
            found.due = self._now()

    def _expire(self, found: Modelled) -> None:
        """Its runner has crashed or stands still; what that believes to hold stays in `hands`, and may come back."""
        if found.status in HELD or found.follower:
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
        found.epoch, found.expired, found.crashes = found.epoch + 1, False, crashes
        if found.waiting or transition == "reclaim":
            assert claim.run_id in (*found.waiting, *(found.run or ()))
        found.run, found.waiting, found.holder = [claim.run_id, claim.attempt], [], leases
        assert (claim.epoch, claim.seq) == (found.epoch, found.seq)
        self.hands.append(Hand(claim.name, leases, claim, claim.seq))

    # ── followers ────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, runner: LeaseRepo, found: Modelled) -> None:
        """As the desk does: what is free, or whose holder was lost; one that has cost too many runners is buried."""
        repo = FollowingRepo(self.lab.db, runner.owner, runner.runner, runner.seconds)
        rows = {row["id"]: row for row in repo.free([])}
        is_mine, is_lost = found.follower == runner.owner, found.follower is not None and found.expired
        is_free = found.status == Status.FOLLOWING and found.enabled and (not found.follower or is_mine or is_lost)
        assert (found.id in rows) == is_free
        if not is_free:
            assert repo.take(found.id) is None
        elif is_lost and not is_mine and found.crashes + 1 >= 3:
            assert repo.bury(rows[found.id], "lost")
            self._unfollow(found, "bury")
        else:
            claim, crashes = repo.take(found.id) or (None, -1)
            assert claim
            found.crashes += int(found.follower is not None and not is_mine)
            found.epoch, found.follower, found.expired = found.epoch + 1, runner.owner, False
            assert (claim.epoch, claim.seq, crashes) == (found.epoch, found.seq, found.crashes)
            self.hands.append(Hand(claim.name, runner, claim, claim.seq, repo))

    def _renew_following(self, hand: Hand, held: Modelled | None) -> None:
        assert hand.follower
        found = self.model.get(hand.name)
        is_mine = found is not None and found.id == hand.claim.pipeline_id and found.follower == hand.leases.owner
        alive = {hand.claim.pipeline_id} if found and is_mine and not found.expired else set()
        assert hand.follower.renew([hand.claim.pipeline_id]) == alive

    def _end(self, what: str, hand: Hand, held: Modelled | None) -> None:
        """Step down, or let go; whatever else runs do, followers do not. By owner: it may have taken it again."""
        assert hand.follower
        found = self.model.get(hand.name)
        is_mine = found is not None and found.id == hand.claim.pipeline_id and found.follower == hand.leases.owner
        if what == "let_go":
            hand.follower.let_go(hand.claim)
            if found and is_mine:
                found.follower, found.expired = None, False
        elif what == "step_down":
            assert self._keeps(hand.follower.step_down, hand.claim) == is_mine
            if found and is_mine:
                self._unfollow(found, "step_down")
                found.due = self._now()

    def _unfollow(self, found: Modelled, transition: str) -> None:
        """Whoever moves it: the assignment is over, and the next epoch begins."""
        if found.status == Status.FOLLOWING:
            assert self._move(found, transition)

    def _renew(self, hand: Hand, held: Modelled | None) -> None:
        """For the runner; a later attempt of the same run may be its own."""
        held = held or self.model.get(hand.name)
        is_ours = held and held.run and held.run[0] == hand.claim.run_id and held.holder is hand.leases
        alive = {hand.claim.run_id: held.status} if held and is_ours and not held.expired else {}
        assert hand.leases.renew([hand.claim.run_id]) == alive

    def _commit(self, hand: Hand, held: Modelled | None) -> None:
        """The fence asks for the epoch, which is the last holder's until another gets the next one."""
        found, claim = self.model.get(hand.name), hand.claim
        mine = (claim.pipeline_id, claim.epoch, hand.seq)
        passes = found is not None and (found.id, found.epoch, found.seq) == mine
        assert held is None or passes
        position = LivePosition(source="warehouse", id=1) if found and found.live else None
        assert self._keeps(StateRepo(self.lab.db).fence, *mine, Checkpoint(position, {}, None)) == passes
        if found and passes:
            found.placed = found.live
            found.seq, hand.seq = found.seq + 1, hand.seq + 1

    def _leave(self, what: str, hand: Hand, held: Modelled | None) -> None:
        how = "pause" if what == "stop" else what
        reason = ["a reason"] if how in ("fail", "hand_back", "wait") else []
        assert self._keeps(getattr(hand.leases, how), hand.claim, *reason) == (held is not None)
        if held:
            goes_live = how == "succeed" and held.live and held.placed and held.enabled
            assert self._move(held, "go_live" if goes_live else how)
            if how == "wait" and held.status == Status.RUN_REQUESTED and held.enabled:
                held.waiting = [hand.claim.run_id]
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
        if found.status != Status.RUN_REQUESTED or not found.enabled:
            found.waiting = []
        held = (found.run or found.follower) is not None
        told = {"run": found.run, "held": held, "open": open_runs, "attempts": open_runs}
        return kept | told | {"waiting": found.waiting}

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
        if found.status == Status.FOLLOWING:
            found.epoch, found.follower, found.expired, found.crashes = found.epoch + 1, None, False, 0
        if new != found.status:
            found.due = self._now() if new == Status.RUN_REQUESTED else None
        found.status = new
        return True

    def _now(self) -> int:
        self.clock += 1
        return self.clock
