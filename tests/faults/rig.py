"""The rig of the fault loop: servers of its own, wires to them, marts of every sort, two runners, and writers."""

import os
import random
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
from pydantic import SecretStr

from tests.capturing import Captured, own_server
from tests.elastic import ELASTICSEARCH, Search, open_search
from tests.faults.children import FORKS, is_stopped
from tests.faults.oracle import Oracle
from tests.faults.places import Place, Tables, placed
from tests.patience import SHORT_LEASE, patient, stand_still
from tests.pooling import pooling
from tests.support import Lab, beside, make_connections, make_templates, wait_for
from tests.wire import Wire, through, to_postgres, wired
from vitrina import failpoints, transform
from vitrina.domain.pipeline import Pipeline
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.embedded.search import EmbeddedSearch
from vitrina.log import configure_logging
from vitrina.meta.db import connect
from vitrina.runner.main import Runner
from vitrina.sources.connections import Connections

SETTINGS: dict[str, Any] = {
    "lease_seconds": SHORT_LEASE,
    "poll_seconds": 0.1,
    "horizon_margin_seconds": 0.05,
    "backoff_seconds": (0.1, 0.5, 0.5),
    "max_crashes": 1_000,  # the loop kills runners, not the pipelines
    "max_delete_rows": 10**6,
    "es_grace_seconds": 0,
}
SOURCE = """
    CREATE TABLE content.items (id integer PRIMARY KEY, title text, at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE TABLE content.tags (item_id integer, tag text, PRIMARY KEY (item_id, tag));
    ALTER TABLE content.items REPLICA IDENTITY FULL;
    ALTER TABLE content.tags REPLICA IDENTITY FULL;
    INSERT INTO content.items SELECT n, 'item ' || n FROM generate_series(1, 60) n;
    INSERT INTO content.tags SELECT n, 'tag ' || n % 7 FROM generate_series(1, 60) n;
    GRANT SELECT ON content.items, content.tags TO vitrina_reader"""
ITEMS = "SELECT i.id, i.title, i.at FROM content.items i"
TAGGED = """SELECT i.id, i.title, count(t.tag) AS tags, string_agg(t.tag, ',' ORDER BY t.tag) AS names
    FROM content.items i LEFT JOIN content.tags t ON t.item_id = i.id GROUP BY i.id"""
MODES: dict[str, dict[str, Any]] = {
    "full": {"source_query": TAGGED},
    "incremental": {"source_query": ITEMS, "mode": "incremental", "incremental_key": "at", "incremental_id_key": "id"},
    "live": {"source_query": TAGGED, "mode": "live"},
}
CHANGES = (
    "INSERT INTO content.items (id, title) VALUES (%(id)s, %(word)s) ON CONFLICT (id) DO UPDATE"
    " SET title = excluded.title, at = clock_timestamp()",
    "UPDATE content.items SET title = %(word)s, at = clock_timestamp() WHERE id BETWEEN %(id)s AND %(id)s + 3",
    "DELETE FROM content.items WHERE id = %(id)s",
    "INSERT INTO content.tags VALUES (%(id)s, %(word)s) ON CONFLICT DO NOTHING",
    "UPDATE content.tags SET item_id = %(other)s WHERE item_id = %(id)s",
    "DELETE FROM content.tags WHERE item_id IN (%(id)s, %(other)s)",
)


@transform("faults_upper")
def upper(rows: Sequence[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Titles in capitals; rows whose title begins with Z are left out."""
    return [row | {"title": row["title"].upper()} for row in rows if not row["title"].startswith("z")]


def transformed(select: str) -> str:
    """The same, as SQL."""
    columns = "q.id, upper(q.title) AS title, q.at" if select == ITEMS else "q.id, upper(q.title) AS title, tags, names"
    return f"SELECT {columns} FROM ({select}) AS q WHERE q.title NOT LIKE 'z%'"


def work(connections: Connections, orders: Pipe, log: Path) -> None:
    """What a child does: all that a runner does. Orders arm and disarm failpoints in it."""
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    configure_logging("json")
    Thread(target=obey, args=(orders,), daemon=True).start()
    runner = Runner(connections)
    runner.stop_on_signals()
    runner.main_loop()


def obey(orders: Pipe) -> None:
    """Failpoints as they are told; an empty order disarms them."""
    with suppress(EOFError):
        while True:
            points = orders.recv()
            failpoints.disarm()
            failpoints.arm(points)


@dataclass
class Child:
    """A runner process."""

    process: ForkServerProcess
    orders: Pipe

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self.process.pid is not None
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """If it is still there."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def stop(self) -> None:
        """SIGSTOP, if it is still there."""
        with suppress(ProcessLookupError):
            stand_still(self.pid)

    def order(self, points: str) -> None:
        """Arm these failpoints and no others."""
        with suppress(BrokenPipeError):
            self.orders.send(points)

    @property
    def is_well(self) -> bool:
        """Neither dead nor standing still."""
        return self.process.is_alive() and not is_stopped(self.process)

    def kill(self) -> None:
        """SIGKILL, stopped or not."""
        self.process.kill()
        self.process.join()


@dataclass
class Rig:
    """Everything that a round of the loop needs, started once."""

    server: EmbeddedPostgres
    elastic: EmbeddedSearch | None  # one that may be restarted
    lab: Lab
    search: Search
    warehouse: Wire
    index: Wire
    folder: Path
    places: dict[str, Place]
    is_pooled: bool = False
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = {f"{sink}_{mode}_python": transformed(MODES[mode]["source_query"]) for sink, mode in KINDS}
        self.oracle = Oracle(self.lab, self.search, wanted, self.places)
        settings = self.lab.connections.settings.model_copy(
            update={f"{self.search.engine}_url": SecretStr(f"http://127.0.0.1:{self.index.port}")}
        )
        self.connections = self._wired(replace(self.lab.connections, settings=settings))

    def _wired(self, direct: Connections) -> Connections:
        """By way of the wires; a pooler at the other end passes neither LISTEN nor replication."""
        wire = self.warehouse
        ways = replace(direct, warehouse=through(wire, direct.warehouse), reader=through(wire, direct.reader))
        if self.is_pooled:
            return ways
        captures = {name: through(wire, conninfo) for name, conninfo in direct.captures.items()}
        return replace(ways, listen=through(wire, direct.listen), captures=captures)

    def set_up(self) -> None:
        """Source, capture and marts; all of them loaded."""
        self.lab.sql(SOURCE)
        self.oracle.watch()
        Captured(self.lab, "wal").install("content.items", "content.tags")
        for sink, mode in KINDS:
            self._add(sink, mode, f"{sink}_{mode}")
            self._add(sink, mode, f"{sink}_{mode}_python", **PYTHON)
        for sink, place in self.places.items():
            for mode in place.modes:
                self._add(sink, mode, f"{sink}_{mode}")
        self.revive()
        self.run(self.pipelines.values())
        self.wait(lambda: not self.unequal(self.pipelines.values()))
        for sink, mode in KINDS:
            if sink == "table":
                self.oracle.watch_repeats(f"analytics.{sink}_{mode}", "id")
                self.oracle.watch_repeats(f"analytics.{sink}_{mode}_python", "id")

    def _add(self, sink: str, mode: str, name: str, **how: Any) -> None:
        targets = {"table": "analytics.{}".format, "index": self.search.target}
        target = (targets.get(sink) or self.places[sink].target)(name)
        config = {"name": name, "target_table": target, "key": ["id"], "batch_size": 7} | MODES[mode] | how
        self.pipelines[name] = self.lab.add(**config)

    # ── pipelines ────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def asked(self) -> list[Pipeline]:
        """Those that run when they are asked to."""
        return [pipeline for pipeline in self.pipelines.values() if pipeline.mode != "live"]

    @property
    def rebuilt(self) -> list[Pipeline]:
        """Those that are built beside what is served."""
        return [self.pipelines[f"{sink}_full"] for sink in ("index", *self.places)]

    @property
    def tables(self) -> Tables | None:
        """Marts in ClickHouse, where its engine is."""
        place = self.places.get("tables")
        return place if isinstance(place, Tables) else None

    @property
    def followers(self) -> list[Pipeline]:
        """Those that run when something changes."""
        return [pipeline for pipeline in self.pipelines.values() if pipeline.mode == "live"]

    def run(self, pipelines: Iterable[Pipeline]) -> None:
        """Ask for a run of each, and wait until all rest."""
        chosen = list(pipelines)
        for pipeline in chosen:
            self.lab.request(pipeline)
        self.wait(lambda: all(self.lab.status(pipeline) in ("IDLE", "FOLLOWING", "FAILED") for pipeline in chosen))

    def go_on(self) -> None:
        """What somebody has paused, or is about to, runs again."""
        for pipeline in self.pipelines.values():
            if self.lab.status(pipeline) in ("PAUSED", "PAUSE_REQUESTED"):
                self.lab.request(pipeline)

    def unequal(self, pipelines: Iterable[Pipeline]) -> list[Pipeline]:
        """Those whose mart is not what it should be."""
        return [pipeline for pipeline in pipelines if self.oracle.differences(pipeline)]

    def wait(self, condition: Callable[[], object], seconds: float = 60) -> None:
        """Until it holds; what has not come to pass by then never will."""
        try:
            wait_for(lambda: self.replace_dead() or condition(), seconds)  # type: ignore[func-returns-value]
        except AssertionError:
            raise AssertionError(f"stuck: {self.state()}") from None

    def state(self) -> str:
        """Who is where, and what the runners said last."""
        rows = self.lab.sql("SELECT p.name, p.status, l.runner, l.expires_at - clock_timestamp(), r.error"
                            " FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id LEFT JOIN LATERAL"
                            " (SELECT error FROM etl.etl_runs r WHERE r.pipeline_id = p.id ORDER BY id DESC LIMIT 1) r"
                            " ON true ORDER BY 1")  # fmt: skip
        logs = "\n".join(file.read_text()[-3000:] for file in sorted(self.folder.glob("runner-*.log"))[-3:])
        return "\n".join(map(str, rows)) + "\n" + logs

    # ── runners ──────────────────────────────────────────────────────────────────────────────────────────────

    def revive(self) -> None:
        """Two runners, neither of them armed or stopped."""
        for child in self.children:
            child.signal(signal.SIGCONT)
            child.order("")
        self.replace_dead()

    def replace_dead(self) -> None:
        """One that was told to stay alive may have reached its failpoint before it heard of it."""
        self.children = [child for child in self.children if child.process.is_alive()]
        while len(self.children) < 2:
            self.children.append(self._start())

    def _start(self) -> Child:
        orders, theirs = FORKS.Pipe()
        log = self.folder / f"runner-{time.time_ns()}.log"
        process = FORKS.Process(target=work, args=(self.connections, theirs, log))
        process.start()
        theirs.close()
        return Child(process, orders)

    def holds(self, child: Child) -> int:
        """How many pipelines and captures are in its hands."""
        held = "SELECT runner FROM etl.etl_leases UNION ALL SELECT runner FROM etl.etl_captures"
        return int(self.lab.value(f"SELECT count(*) FROM ({held}) AS h WHERE runner LIKE %s", f"%:{child.pid}"))

    def end(self) -> list[int | None]:
        """Ask the runners to leave; their exit codes."""
        for child in self.children:
            child.signal(signal.SIGCONT)
            child.process.terminate()
        for child in self.children:
            child.process.join(patient(30))
            if child.process.is_alive():
                child.kill()
        return [child.process.exitcode for child in self.children]

    def find_index(self, url: str) -> str:
        """The search engine again, after a restart that may have moved it to another port."""
        moved = self.index.upstream != address_of(url)
        self.index.upstream = address_of(url)
        self.search.http.close()
        self.search.http = httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60)
        return "elsewhere" if moved else "at the same port"

    def crash(self) -> None:
        """The database, without a word."""
        self.server.restart(mode="immediate")
        self.lab.db = connect(self.lab.conninfo, "lab")

    @contextmanager
    def writing(self, rng: random.Random) -> Iterator[None]:
        """Two applications that never stop, whatever happens to the server."""
        stopping = Event()
        seeds = [rng.random(), rng.random()]
        with beside(stopping, *(partial(self._write, random.Random(seed), stopping) for seed in seeds)):
            yield

    def _write(self, rng: random.Random, stopping: Event) -> None:
        while not stopping.is_set():
            cut = suppress(psycopg.OperationalError, psycopg.Rollback)  # Rollback: when its own connection is gone
            with cut, psycopg.connect(self.lab.conninfo) as conn:
                while not stopping.wait(rng.uniform(0.002, 0.02)):
                    with suppress(psycopg.errors.IntegrityError, psycopg.errors.DeadlockDetected), conn.transaction():
                        self._change(conn, rng, stopping)

    def _change(self, conn: psycopg.Connection, rng: random.Random, stopping: Event) -> None:
        """A transaction of a few statements; some take their time, some are rolled back."""
        for _ in range(rng.randint(1, 4)):
            word = rng.choice("abcxyz") + str(rng.randint(0, 9))
            values = {"id": rng.randint(1, 120), "other": rng.randint(1, 120), "word": word}
            conn.execute(rng.choice(CHANGES).encode(), values)
        if rng.random() < 0.2:
            stopping.wait(rng.uniform(0, 0.1))
        if rng.random() < 0.1:
            raise psycopg.Rollback


KINDS = [(sink, mode) for sink in ("table", "index") for mode in MODES]
PYTHON = {"type": "PYTHON", "python_task": "faults_upper"}


def address_of(url: str) -> tuple[str, int]:
    """Host and port."""
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 80)


@contextmanager
def rigged(
    folder: Path,
    url: str,
    elastic: EmbeddedSearch | None = None,
    *,
    is_pooled: bool = False,
    engine: str = ELASTICSEARCH,
    elsewhere: bool = False,
) -> Iterator[Rig]:
    """A rig that is set up; `elastic` if it may be restarted, else only its `url` is used. Behind a pooler if asked;
    with marts in a lake, in files and in ClickHouse if asked."""
    prefix = f"t_{uuid.uuid4().hex[:12]}_"
    with ExitStack() as stack:
        server = stack.enter_context(own_server(synchronous_commit="on"))
        make_templates(server.conninfo())
        conninfo = server.conninfo("vitrina_template")
        lab = Lab(conninfo, connect(conninfo, "lab"), make_connections(conninfo, **SETTINGS))
        search = stack.enter_context(open_search(lab, url, prefix, engine))
        postgres = Wire(("127.0.0.1", stack.enter_context(pooling(conninfo)))) if is_pooled else to_postgres(conninfo)
        warehouse = stack.enter_context(wired(postgres))
        index = stack.enter_context(wired(Wire(address_of(url))))
        places = stack.enter_context(placed(lab, folder)) if elsewhere else {}
        rig = Rig(server, elastic, lab, search, warehouse, index, folder, places, is_pooled)
        try:
            rig.set_up()
            yield rig
        finally:
            rig.end()
            lab.db.close()
