"""The claim protocol, searched exhaustively: every order of every step of three runners over two pipelines.

A pipeline is run; one that is live is followed then, until somebody asks for a run or its follower steps down for one.

A runner may stall for ever before any step (it is just not chosen), and crash at any (`crash`: its process starts
anew, knows nothing, and the server rolls its transaction back). The clock may end any lease at any moment. Each step
stands for one named block of `meta/queries`, which `SQL` tells. Runners are interchangeable, and so are pipelines:
states that differ only in their names count once. `make model` prints what the search finds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

SQL = {
    "claim": "leases.claim",
    "begin": "marks.leave",  # a batch: BEGIN, the lock that names its session, its rows, its counters
    "recover": "leases.recover",  # in a successor's batch: locks the lease until COMMIT
    "fence": "state.fence",  # locks the state row until COMMIT
    "commit": "state.fence",  # what it wrote becomes true
    "time out": "state.approach_fence",  # the server ends a session that stands still before its COMMIT
    "try again": "runs.begin_attempt",  # the session was ended, the lease is perhaps still ours
    "renew": "leases.renew",
    "complete": "state.leave",
    "take": "following.take",
    "let go": "following.let_go",
    "step down": "following.step_down",
    "asks for a run": "pipelines.request_run",
    "look": "leases.expired",  # of a follower: following.free
    "expel": "leases.expel",
    "reclaim": "leases.reclaim",  # locks pipeline and lease until COMMIT
    "take over": "leases.take_over",
    "bury": "leases.bury",
}
BUGS = {
    "no epoch check": "the fence looks at the batch's number only",
    "same epoch": "a takeover does not give the next epoch",
    "late renewal": "the heartbeat renews a lease that has expired",
    "blind completion": "whoever thinks that it holds a pipeline may complete it",
    "no time-out": "the server lets a session stand still before its COMMIT",
    "assignment without end": "a follower that is asked for something else keeps its epoch",
}
BATCHES, MAX_CRASHES = 1, 2
IN_TRANSACTION = ("writing", "recovered", "fenced")


class Pipeline(NamedTuple):
    """What the meta-store knows: status, fence, and lease (run 0: nobody holds it)."""

    status: str = "asked"
    epoch: int = 0
    seq: int = 0
    runs: int = 0
    run: int = 0
    alive: bool = False
    crashes: int = 0
    expelled: bool = False  # for the invariants: a successor ended this run's session
    lives: int = 0  # how often it is yet followed after a run
    lets: int = 1  # how often its follower may yet let it go


class Runner(NamedTuple):
    """What a process believes: what it is about to do, with which run of which pipeline, behind which fence."""

    step: str = "free"
    pipeline: int = -1
    run: int = 0
    epoch: int = 0
    seq: int = 0
    follows: bool = False


State: TypeAlias = tuple[tuple[Pipeline, ...], tuple[Runner, ...]]
Move: TypeAlias = tuple[str, State]
FREE = Runner()


class Broken(Exception):
    """A step from this state leads where an invariant does not hold."""


def start(runners: int, pipelines: int, *, live: bool = False) -> State:
    """Every pipeline is asked for, every runner is free; `live`: the first pipeline is followed once it was run."""
    return (Pipeline(lives=int(live)), *(Pipeline() for _ in range(pipelines - 1))), (FREE,) * runners


def canonical(state: State) -> State:
    """The same state, whatever its runners and pipelines are called."""
    pipelines, runners = state
    order = sorted(range(len(pipelines)), key=lambda n: (pipelines[n], sorted(r for r in runners if r.pipeline == n)))
    if order == list(range(len(pipelines))):
        return pipelines, tuple(sorted(runners))
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    renamed = sorted(runner._replace(pipeline=place[runner.pipeline]) for runner in runners)
    return tuple(pipelines[n] for n in order), tuple(renamed)


@dataclass(frozen=True)
class Protocol:
    """The steps, with one of the `BUGS` or none."""

    bug: str = ""

    def moves(self, state: State, solo: int | None = None) -> Iterator[Move]:
        """Every step that can be taken; of one runner alone, if it is named, with the clock and the server."""
        pipelines, runners = state
        for n, pipeline in enumerate(pipelines):
            if pipeline.run and pipeline.alive:
                yield f"the lease of run {pipeline.run} of pipeline {n} expires", self._set(state, n, alive=False)
            is_fenced = any(runner.step == "fenced" and runner.pipeline == n for runner in runners)
            if pipeline.status in ("followed", "following") and not is_fenced and not self._locked(state, n):
                yield f"somebody asks for a run of pipeline {n}", self._end_following(state, n)
        for who, runner in enumerate(runners):
            if runner.step in (*IN_TRANSACTION, "taking") and self.bug != "no time-out":
                rolled_back = self._free(state, who) if runner.step == "taking" else self._be(state, who, step="ended")
                yield self._said(who, runner, "time out"), rolled_back
            if solo in (None, who):
                yield from self._steps(state, who, runner)
            if solo is None and runner.step != "free":
                yield self._said(who, runner, "crash"), self._free(state, who)

    def _steps(self, state: State, who: int, runner: Runner) -> Iterator[Move]:
        if runner.step == "free":
            for n, pipeline in enumerate(state[0]):
                if pipeline.status == "asked" and not self._locked(state, n):
                    said = f"runner {who}: claim, run {pipeline.runs + 1} of pipeline {n}"
                    yield said, self._hand_over(state, who, n, 0)
                if pipeline.status == "followed" and not self._locked(state, n):
                    said = f"runner {who}: take, run {pipeline.runs + 1} of pipeline {n}"
                    yield said, self._hand_over(state, who, n, 0)
                if pipeline.run and not pipeline.alive:
                    said = f"runner {who}: look, run {pipeline.run} of pipeline {n} is lost"
                    yield said, self._be(state, who, step="looking", pipeline=n, run=pipeline.run)
            return
        after = getattr(self, "_" + runner.step)(state, who, runner, state[0][runner.pipeline])
        yield from ((self._said(who, runner, name), new) for name, new in after)
        if runner.step == "holding":
            yield from self._renew(state, who, runner)

    # ── a run ────────────────────────────────────────────────────────────────────────────────────────────────

    def _holding(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if runner.seq < BATCHES * (1 + runner.follows):
            if not self._written_by(state, runner.pipeline):  # else it waits for what a predecessor has open
                yield "begin", self._be(state, who, step="writing")
        elif runner.follows:
            yield from self._stay(state, who, runner, pipeline)
        elif not self._locked(state, runner.pipeline):
            yield "complete", self._complete(state, who, runner, pipeline)

    def _writing(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if pipeline.run == runner.run and pipeline.crashes and not self._locked(state, runner.pipeline):
            yield "recover", self._be(state, who, step="recovered")
        elif pipeline.run != runner.run or not pipeline.crashes:
            yield from self._recovered(state, who, runner, pipeline)

    def _recovered(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if any(other.step == "fenced" and other.pipeline == runner.pipeline for other in state[1]):
            return  # waits for whoever has the state row
        passes = pipeline.seq == runner.seq and (self.bug == "no epoch check" or pipeline.epoch == runner.epoch)
        yield "fence", self._be(state, who, step="fenced") if passes else self._free(state, who)

    def _fenced(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if pipeline.run != runner.run:
            raise Broken(f"run {runner.run} commits a batch, and run {pipeline.run} holds the pipeline", state)
        new = self._set(state, runner.pipeline, seq=pipeline.seq + 1, crashes=0)
        yield "commit", self._be(new, who, step="holding", seq=runner.seq + 1)

    def _ended(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if not self._locked(state, runner.pipeline):
            mine = pipeline.run == runner.run
            again = self._be(state, who, step="holding", seq=pipeline.seq)
            yield "try again", again if mine else self._free(state, who)

    def _renew(self, state: State, who: int, runner: Runner) -> Iterator[Move]:
        """Of a lease that is alive it changes nothing here: it may expire at any moment anyway."""
        pipeline = state[0][runner.pipeline]
        if pipeline.run == runner.run and not pipeline.alive and self.bug == "late renewal":
            if pipeline.expelled:
                raise Broken(f"run {runner.run} lives again, and a successor has ended its session", state)
            yield self._said(who, runner, "renew"), self._set(state, runner.pipeline, alive=True)
        elif pipeline.run != runner.run or not pipeline.alive:
            yield self._said(who, runner, "renew"), self._free(state, who)  # the run is told that its lease is lost

    def _complete(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> State:
        if pipeline.run != runner.run and self.bug != "blind completion":
            return self._free(state, who)
        if pipeline.run != runner.run:
            raise Broken(f"run {runner.run} is completed, and it was closed before", state)
        status, lives = ("followed", pipeline.lives - 1) if pipeline.lives else ("done", 0)
        done = Pipeline(status, pipeline.epoch, pipeline.seq, pipeline.runs, lives=lives)
        return self._free(self._set(state, runner.pipeline, **done._asdict()), who)

    # ── a follower ───────────────────────────────────────────────────────────────────────────────────────────

    def _stay(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        """It rests; it may let go, for others to go on, or step down for a run."""
        if self._locked(state, runner.pipeline):
            return
        if pipeline.run != runner.run:
            yield "let go", self._free(state, who)
            return
        if not any(other.step == "fenced" and other.pipeline == runner.pipeline for other in state[1]):
            yield "step down", self._free(self._end_following(state, runner.pipeline), who)
        if pipeline.lets:
            kept = Pipeline("followed", pipeline.epoch, pipeline.seq, pipeline.runs, crashes=pipeline.crashes, lets=0)
            yield "let go", self._free(self._set(state, runner.pipeline, **kept._asdict()), who)

    def _end_following(self, state: State, n: int) -> State:
        """The lease is free and the next epoch begins, whoever has it."""
        before = state[0][n]
        epoch = before.epoch + (self.bug != "assignment without end")
        return self._set(state, n, **Pipeline("asked", epoch, before.seq, before.runs)._asdict())

    # ── a takeover ───────────────────────────────────────────────────────────────────────────────────────────

    def _looking(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        new = state
        if pipeline.run == runner.run and not pipeline.alive:
            new = self._set(new, runner.pipeline, expelled=True)
            for n in self._written_by(new, runner.pipeline):
                new = self._be(new, n, step="ended")
        yield "expel", self._be(new, who, step="following")

    def _following(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if pipeline.run != runner.run or pipeline.alive or self._locked(state, runner.pipeline):
            yield "reclaim", self._free(state, who)  # it finished, renewed, or another was first: zero rows
        else:
            yield "reclaim", self._be(state, who, step="taking")

    def _taking(self, state: State, who: int, runner: Runner, pipeline: Pipeline) -> Iterator[Move]:
        if any(other.step == "fenced" and other.pipeline == runner.pipeline for other in state[1]):
            return  # waits for whoever has the state row
        if pipeline.crashes + 1 >= MAX_CRASHES:
            lost = Pipeline("failed", pipeline.epoch + 1, pipeline.seq, pipeline.runs)
            yield "bury", self._free(self._set(state, runner.pipeline, **lost._asdict()), who)
        else:
            yield "take over", self._hand_over(state, who, runner.pipeline, pipeline.crashes + 1)

    def _hand_over(self, state: State, who: int, n: int, crashes: int) -> State:
        """The lease, a run and the next epoch, in one transaction."""
        before = state[0][n]
        epoch = before.epoch + (0 if self.bug == "same epoch" and crashes else 1)
        follows = before.status in ("followed", "following")
        status = "following" if follows else "running"
        held = Pipeline(status, epoch, before.seq, before.runs + 1, before.runs + 1, True, crashes)
        held = held._replace(lives=before.lives, lets=before.lets)
        for other in state[1]:
            if other.step in ("holding", *IN_TRANSACTION) and (other.pipeline, other.epoch) == (n, epoch):
                raise Broken(f"runs {other.run} and {held.run} of pipeline {n} both hold epoch {epoch}", state)
        new = self._set(state, n, **held._asdict())
        run = {"run": held.run, "epoch": epoch, "seq": held.seq, "follows": follows}
        return self._be(new, who, step="holding", pipeline=n, **run)

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────

    def _locked(self, state: State, n: int) -> bool:
        """Whether somebody has the pipeline or its lease locked."""
        holding = ("taking", "recovered")
        return any(
            r.pipeline == n and (r.step in holding or (r.step == "fenced" and state[0][n].crashes)) for r in state[1]
        )

    def _written_by(self, state: State, n: int) -> list[int]:
        """Who has a transaction open that writes to the pipeline's mart: one at most, by its lock."""
        return [who for who, runner in enumerate(state[1]) if runner.pipeline == n and runner.step in IN_TRANSACTION]

    def _set(self, state: State, n: int, **values: object) -> State:
        pipelines, runners = state
        return (*pipelines[:n], pipelines[n]._replace(**values), *pipelines[n + 1 :]), runners  # type: ignore[arg-type]

    def _be(self, state: State, who: int, **values: object) -> State:
        pipelines, runners = state
        return pipelines, (*runners[:who], runners[who]._replace(**values), *runners[who + 1 :])  # type: ignore[arg-type]

    def _free(self, state: State, who: int) -> State:
        return self._be(state, who, **FREE._asdict())

    def _said(self, who: int, runner: Runner, name: str) -> str:
        return f"runner {who}, run {runner.run} of pipeline {runner.pipeline}: {name}"
