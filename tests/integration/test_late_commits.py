"""The safe horizon, by randomised trials: whenever a transaction commits, its rows arrive.

A trial is one schedule: several sessions begin, idle, write, commit, roll back or prepare, in an order drawn from a
seed, and incremental runs fall between and into these steps. All trials of a test share one mart; what is missing
or stale in it when everybody has finished is lost. Each test is run again without the horizon, and then must lose.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.engine import incremental
from vitrina.engine.incremental import IncrementalSession
from vitrina.meta.db import Connection, connect, fetch_all
from vitrina.runner.dispatcher import PipelineDispatcher
from vitrina.runner.heartbeat import Heartbeat
from vitrina.runner.identity import Identity
from vitrina.sources.postgres import reader
from vitrina.sources.postgres.horizon import SQL as HORIZON
from vitrina.sources.source import Horizon

TRIALS = int(os.environ.get("VITRINA_TRIALS", "240"))  # in all, over the six cursors below; `make model`: 1,020
SEED = int(os.environ.get("VITRINA_SEED", "1"))  # of the trials that must lose nothing
PROOF = 40  # trials without the horizon: enough to lose rows every time
FEW = 4  # of these at a time: most lose some at once
WRITERS = 4
TABLE = """
    CREATE TABLE ugc.notes (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body int NOT NULL,
        modified timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ON ugc.notes (modified, id)
"""
STAMP_BY_TRIGGER = """
    CREATE FUNCTION ugc.stamp() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN NEW.modified := now(); RETURN NEW; END';
    CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON ugc.notes FOR EACH ROW EXECUTE FUNCTION ugc.stamp()
"""


@dataclass(frozen=True)
class Way:
    """How writers stamp their rows, and the margin that it takes."""

    stamp: str
    margin: float = 0
    cursor: str = "modified"

    @property
    def updates(self) -> bool:
        return self.cursor == "modified"


WAYS = {
    "now": Way("DEFAULT"),
    "trigger": Way("'-infinity'"),
    "clock": Way("clock_timestamp()"),
    "early": Way("clock_timestamp() - interval '20 ms'", margin=0.02),
    "rounded": Way("date_trunc('second', clock_timestamp())", margin=1),
    "identity": Way("DEFAULT", cursor="id"),
}


class FakeTime:
    """The wait for other transactions, without waiting: nobody else moves while this thread waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 1


@dataclass
class Writer:
    """A session with a transaction of some random length."""

    name: str
    conn: Connection
    way: Way
    rng: random.Random
    idle_ids: set[int]  # rows that no open transaction has touched
    touched: set[int] = field(default_factory=set)
    left: int = 0
    state: str = "resting"
    transactions: int = 0

    def step(self) -> None:
        """One statement, or none: the next in this session's life."""
        if self.state == "resting":
            self._begin()
        elif self.state == "prepared":
            self._finish("COMMIT PREPARED" if self.rng.random() < 0.8 else "ROLLBACK PREPARED", self._gid)
        elif self.left > 0:
            self.left -= 1
            self.rng.choice([self._insert, self._insert, self._update, self._idle])()
        else:
            self._end()

    def settle(self) -> None:
        """Come to an end."""
        while self.state != "resting":
            self.step()

    def _begin(self) -> None:
        self.conn.execute("BEGIN")
        self.state, self.left = "open", self.rng.randint(1, 5)
        self.transactions += 1

    def _end(self) -> None:
        if self.rng.random() < 0.1:
            self.conn.execute(f"PREPARE TRANSACTION {self._gid}".encode())
            self.state = "prepared"
        else:
            self._finish("COMMIT" if self.rng.random() < 0.8 else "ROLLBACK")

    def _finish(self, how: str, what: str = "") -> None:
        self.conn.execute(f"{how} {what}".encode())
        self.idle_ids |= self.touched
        self.touched, self.state = set(), "resting"

    def _insert(self) -> None:
        self._write(f"INSERT INTO ugc.notes (body, modified) VALUES (1, {self.way.stamp}) RETURNING id")

    def _update(self) -> None:
        if self.way.updates and self.idle_ids:
            row = self.rng.choice(sorted(self.idle_ids))
            self._write(f"UPDATE ugc.notes SET body = body + 1, modified = {self._now} WHERE id = {row} RETURNING id")

    def _idle(self) -> None:
        pass

    def _write(self, statement: str) -> None:
        for row in self.conn.execute(statement.encode()):
            self.touched.add(row["id"])
            self.idle_ids.discard(row["id"])

    @property
    def _now(self) -> str:
        return "now()" if self.way.stamp == "DEFAULT" else self.way.stamp

    @property
    def _gid(self) -> str:
        return f"'{self.conn.info.dbname} {self.name}'"


@dataclass
class Trials:
    """Writers, a pipeline, and a dice."""

    lab: Lab
    way: Way
    pipeline: Pipeline
    writers: list[Writer]
    rng: random.Random
    dispatcher: PipelineDispatcher
    over: bool = False

    def play(self, count: int) -> None:
        """Trial after trial, without a rest between them; then let everything finish and run once more."""
        self.over = False
        for _ in range(count):
            for _ in range(self.rng.randint(6, 16)):
                self.move()
            self.run()
        for writer in self.writers:
            writer.settle()
        self.over = True
        time.sleep(self.way.margin + 0.01)
        self.run()

    def lose(self, most: int) -> int:
        """A few trials after the other until rows are lost; none, if so many do not lose any."""
        for _ in range(most // FEW):
            self.play(FEW)
            if lost := self.lost():
                return lost
        return 0

    def move(self) -> None:
        """Somebody does something."""
        self.rng.choice(self.writers).step()

    def move_perhaps(self) -> None:
        """Within a run: one step in two."""
        if not self.over and self.rng.random() < 0.5:
            self.move()

    def run(self) -> None:
        """The real executor with the real fence; only the runner's start-up and its heartbeat are left out."""
        assert self.lab.request(self.pipeline)
        assert self.dispatcher.dispatch_next(self.pipeline.id)

    def lost(self) -> int:
        """Rows of the source that are missing or stale in the mart."""
        return int(
            self.lab.value(
                "SELECT count(*) FROM ugc.notes n LEFT JOIN analytics.mart m ON m.id = n.id"
                " WHERE m.body IS DISTINCT FROM n.body"
            )
        )

    def check_runs(self) -> None:
        """Every run went well."""
        bad = self.lab.sql("SELECT error FROM etl.etl_runs WHERE status <> 'SUCCESS'")
        assert not bad


@contextmanager
def open_trials(
    name: str, monkeypatch: pytest.MonkeyPatch, margin: float | None = None, seed: int = 1
) -> Iterator[Trials]:
    """A lab with writers whose steps also fall into the runs: around the horizon, and before every batch."""
    way = WAYS[name]
    with Lab.open(
        "vitrina_template", lease_seconds=60, horizon_margin_seconds=way.margin if margin is None else margin
    ) as lab:
        lab.sql(TABLE)
        if name == "trigger":
            lab.sql(STAMP_BY_TRIGGER)
        query = "SELECT id, body, modified FROM ugc.notes"
        pipeline = lab.add(source_query=query, key=["id"], mode="incremental", incremental_key=way.cursor, batch_size=5)
        rng, idle_ids = random.Random(seed), set[int]()
        writers = [Writer(f"w{n}", connect(lab.conninfo, f"w{n}"), way, rng, idle_ids) for n in range(WRITERS)]
        identity = Identity()
        dispatcher = PipelineDispatcher(lab.connections, identity, Heartbeat(lab.connections, identity, 60, 1), Event())
        trials = Trials(lab, way, pipeline, writers, rng, dispatcher)
        _interleave(trials, monkeypatch)
        try:
            yield trials
        finally:
            dispatcher.close()
            for writer in writers:
                writer.settle()  # a prepared transaction would keep the database from being dropped
                writer.conn.close()


def _interleave(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    horizon: Callable[..., Horizon] = vars(reader)["take_horizon"]
    batch = IncrementalSession._batch

    def horizon_amid_steps(conn: Connection, margin: timedelta) -> Horizon:
        trials.move_perhaps()
        taken = horizon(conn, margin)
        trials.move_perhaps()
        return taken

    def batch_after_a_step(self: IncrementalSession, conn: Connection) -> Any:
        trials.move_perhaps()
        return batch(self, conn)

    monkeypatch.setattr(reader, "take_horizon", horizon_amid_steps)
    monkeypatch.setattr(IncrementalSession, "_batch", batch_after_a_step)
    monkeypatch.setattr(incremental, "time", FakeTime())


def no_horizon(conn: Connection, margin: timedelta) -> Horizon:
    """Now, and nobody holds it: what a naive cursor assumes."""
    now = fetch_all(conn, HORIZON["clock"])[0]["now"]
    return Horizon(now, now, None)


@pytest.mark.scenario(23)
@pytest.mark.parametrize("name", WAYS)
def test_no_row_is_lost_however_late_it_commits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_trials(name, monkeypatch, seed=SEED) as trials:
        trials.play(TRIALS // len(WAYS))
        trials.check_runs()
        transactions = sum(writer.transactions for writer in trials.writers)
        print(f"{name}: {TRIALS // len(WAYS)} trials, {transactions} transactions, {trials.lost()} rows lost")
        assert trials.lost() == 0
        assert trials.lab.value("SELECT count(*) FROM analytics.mart") > TRIALS // len(WAYS)


@pytest.mark.parametrize("name", WAYS)
def test_without_the_horizon_the_same_trials_lose_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "take_horizon", no_horizon)
    with open_trials(name, monkeypatch) as trials:
        assert trials.lose(PROOF) > 0
        trials.check_runs()


@pytest.mark.parametrize(
    ("statement", "part", "without"),
    [
        ("oldest", "a.pid <> pg_backend_pid()", "a.pid <> pg_backend_pid() AND a.backend_xid IS NOT NULL"),
        ("prepared", "current_database()", "'nowhere'"),
    ],
    ids=["idle ones", "prepared ones"],
)
def test_a_horizon_that_overlooks_some_transactions_loses_rows(
    statement: str, part: str, without: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert part in HORIZON[statement]
    monkeypatch.setitem(HORIZON, statement, HORIZON[statement].replace(part, without))
    with open_trials("now", monkeypatch) as trials:
        assert trials.lose(2 * PROOF) > 0
        trials.check_runs()


@pytest.mark.parametrize("name", ["early", "rounded"])
def test_without_a_margin_stamps_that_run_early_are_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_trials(name, monkeypatch, margin=0) as trials:
        assert trials.lose(2 * PROOF) > 0
        trials.check_runs()


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trials]:
    """Writers that do what the test says, and nothing else."""
    with open_trials("now", monkeypatch) as trials:
        trials.over = True
        yield trials


def write(trials: Trials, number: int) -> None:
    """One row, in whatever transaction this writer has open."""
    trials.writers[number].conn.execute("INSERT INTO ugc.notes (body) VALUES (1)")


def arrived(trials: Trials) -> list[int]:
    """Run, and tell which rows the mart has."""
    trials.run()
    trials.check_runs()
    return [row[0] for row in trials.lab.sql("SELECT id FROM analytics.mart ORDER BY id")]


def held_by(trials: Trials) -> dict[str, Any]:
    """Whom the latest run named."""
    fields = [e["fields"] for e in trials.lab.events(trials.pipeline) if e["event"] == "window"][-1]
    return dict(fields.get("held_by", {}))


@pytest.mark.scenario(23)
def test_rows_written_before_a_run_and_committed_after_it_arrive(trials: Trials) -> None:
    late = trials.writers[0].conn
    late.execute("BEGIN")
    write(trials, 0)
    write(trials, 1)
    assert arrived(trials) == []
    late.execute("COMMIT")
    write(trials, 1)
    assert arrived(trials) == [1, 2, 3]


@pytest.mark.scenario(24)
def test_a_writer_that_idles_before_its_first_write_holds_the_window_and_its_rows_arrive(trials: Trials) -> None:
    idler = trials.writers[0].conn
    idler.execute("BEGIN")
    write(trials, 1)
    assert arrived(trials) == []
    assert (held_by(trials)["pid"], held_by(trials)["wrote"]) == (idler.info.backend_pid, False)
    write(trials, 0)  # stamped with the beginning of its transaction, before the row of the other
    write(trials, 1)
    assert arrived(trials) == []
    idler.execute("COMMIT")
    assert arrived(trials) == [1, 2, 3]


@pytest.mark.scenario(27)
def test_a_prepared_transaction_freezes_the_window_and_its_rows_arrive(trials: Trials) -> None:
    write(trials, 1)
    assert arrived(trials) == [1]
    first = trials.writers[0].conn
    first.execute("BEGIN")
    write(trials, 0)
    first.execute("PREPARE TRANSACTION 'pending'")
    write(trials, 1)
    assert arrived(trials) == [1]
    assert held_by(trials)["prepared_transaction"] == "pending"
    first.execute("COMMIT PREPARED 'pending'")
    assert arrived(trials) == [1, 2, 3]


def test_a_prepared_transaction_that_is_rolled_back_lets_go(trials: Trials) -> None:
    first = trials.writers[0].conn
    first.execute("BEGIN")
    write(trials, 0)
    first.execute("PREPARE TRANSACTION 'doomed'")
    write(trials, 1)
    assert arrived(trials) == []
    first.execute("ROLLBACK PREPARED 'doomed'")
    assert arrived(trials) == [2]


def test_a_savepoint_rolled_back_takes_nothing_with_it(trials: Trials) -> None:
    first = trials.writers[0].conn
    first.execute("BEGIN")
    write(trials, 0)
    first.execute("SAVEPOINT here")
    write(trials, 0)
    first.execute("ROLLBACK TO here")
    write(trials, 1)
    assert arrived(trials) == []
    first.execute("COMMIT")
    assert arrived(trials) == [1, 3]
