"""Films into Elasticsearch: how fast an index is filled, and how little is sent when little has changed."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from pydantic import SecretStr

from bench import ground, peers
from bench.films import SELECT
from bench.report import Compared, Measured, Options, Report, Skipped, Target, out, warn
from bench.search import Documents, Search, client, parse
from bench.ways import BATCH, CONNECTIONS, ByPgSync, Floor, HelpersBulk, Vitrina, Way
from vitrina import bootstrap
from vitrina.demo.data import load_cinema
from vitrina.demo.settings import allow_cinema
from vitrina.embedded.distribution import Missing
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch
from vitrina.meta.db import Connection, connect
from vitrina.settings import Settings

SCALES = {"tiny": 2_000, "small": 20_000, "full": 200_000}
CHANGE = "UPDATE content.film_work SET rating = coalesce(rating, 0) + 0.25 WHERE get_byte(uuid_send(id), 15) % 100 = 0"
WANTED = f"SELECT q.film_id::text AS id, row_to_json(q)::text AS document FROM ({SELECT}) AS q"
SPEED = 0.9  # of the floor, in documents a second
WORKS = ("load", "unchanged", "changed")


def measure(options: Options) -> Report:
    """Every work by every way, there and back from round to round, so that neighbours stay neighbours; medians."""
    scale = options.scale
    with Bench.prepared(scale, with_peers=options.peers) as bench:
        rounds = [bench.round(number) for number in range(options.times)]
        versions, skipped = bench.versions(), bench.skipped
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    title = f"{SCALES[scale]:,} documents to Elasticsearch, batches of {BATCH:,}, {CONNECTIONS} connections"
    head = ["way", "first load, s", "documents/s", "nothing changed, s", "1% changed, s"]
    seconds, rows = _seconds(medians), _rows(medians, SCALES[scale])
    compared = [Compared("first load", 1 / SPEED, seconds)]
    counts = dict.fromkeys(seconds, options.times)
    return Report(title, head, rows, judge(medians), medians, versions, skipped, counts, compared)


def judge(medians: Measured) -> list[Target]:
    """Speeds as ratios within this run; what is sent, counted by the server."""
    ours = medians["vitrina load"]
    targets = [Target.at_least("first load / floor, documents a second", medians["floor load"] / ours, SPEED)]
    if "PGSync load" in medians:
        targets.append(Target.at_least("first load / PGSync's first sync", medians["PGSync load"] / ours, 4.0))
    return [
        *targets,
        Target.at_most("documents sent when nothing changed", medians["sent unchanged"], 0),
        Target.at_most("documents sent / documents changed, 1% changed", medians["sent changed"], 1.0),
    ]


def _seconds(medians: Measured) -> Measured:
    return {name.removesuffix(" load"): round(s, 3) for name, s in medians.items() if name.endswith(" load")}


def _rows(medians: Measured, documents: int) -> list[list[str]]:
    names = [name.removesuffix(" load") for name in medians if name.endswith(" load")]
    cells = {name: [medians.get(f"{name} {work}") for work in WORKS] for name in names}
    shown = {name: ["" if value is None else f"{value:.2f}" for value in row] for name, row in cells.items()}
    return [[n, shown[n][0], f"{documents / medians[f'{n} load']:,.0f}", *shown[n][1:]] for n in names]


@dataclass(frozen=True)
class Bench:
    """A Postgres and an Elasticsearch of its own, the films in the one, and the ways into the other."""

    db: Connection
    search: Search
    ways: Sequence[Way]
    skipped: Sequence[str]

    @classmethod
    @contextmanager
    def prepared(cls, scale: str, *, with_peers: bool) -> Iterator["Bench"]:
        """Start both, generate the films once, warm up, hand out, stop."""
        home = ground.HOME / f"elasticsearch-{scale}"
        with ExitStack() as stack:
            search = stack.enter_context(_server(home))
            settings = allow_cinema(Settings(home=home, database_url=None, elasticsearch_url=SecretStr(search.url)))
            warehouse = bootstrap.open_warehouse(settings)
            if warehouse.embedded:
                stack.callback(warehouse.embedded.stop)
            with psycopg.connect(warehouse.owner) as conn:
                load_cinema(conn, films=SCALES[scale], ratings=SCALES[scale] // 10)
            bootstrap.set_up(warehouse, settings)
            copy = peers.own_database(warehouse.owner)
            db = stack.enter_context(connect(warehouse.owner, "bench"))
            vitrina = Vitrina(db, search, settings)
            floor = Floor(db, search, _warm_up(vitrina))
            found, skipped = _peers(stack, home, search, warehouse, copy, floor.fields) if with_peers else ([], [])
            yield cls(db, search, [floor, vitrina, *found], skipped)

    def round(self, number: int) -> Measured:
        """Each work once by each way; every result is compared with the query, document by document."""
        self.search.clear()
        for way in self.ways:
            way.prepare()
        self.db.execute("VACUUM ANALYZE content.film_work")
        measured = self._work("load", number)
        before = self.search.indexed("by-vitrina")
        measured |= self._work("unchanged", number)
        unchanged = self.search.indexed("by-vitrina")
        [changed] = {db.execute(CHANGE.encode()).rowcount for db in self.databases}
        self.db.execute("VACUUM ANALYZE content.film_work")
        measured |= self._work("changed", number)
        sent = (self.search.indexed("by-vitrina") - unchanged) / changed
        self._leave()
        return measured | {"sent unchanged": unchanged - before, "sent changed": sent}

    @property
    def databases(self) -> list[Connection]:
        """Each with the same films."""
        return [self.db, *(way.db for way in self.ways if isinstance(way, ByPgSync))]

    def versions(self) -> dict[str, str]:
        """Of what was measured."""
        server = {"postgres": self.db.info.parameter_status("server_version") or "?"}
        return server | {"elasticsearch": self.search.version()} | peers.versions("pgsync", "elasticsearch")

    def _work(self, work: str, number: int) -> Measured:
        wanted = self._wanted()
        measured: Measured = {}
        for way in self.ways if number % 2 == 0 else reversed(self.ways):
            self.db.execute("CHECKPOINT")
            self.search.settle()
            seconds = way.load() if work == "load" else way.again()
            if seconds is None:
                continue
            assert same(self.search.documents(way.index), wanted), f"{way.name}, {work}: the index differs"
            out.print(f"round {number + 1}: {way.name} {work} {seconds:.2f} s", highlight=False)
            measured[f"{way.name} {work}"] = seconds
        return measured

    def _wanted(self) -> Documents:
        return {row["id"]: parse(row["document"]) for row in self.db.execute(WANTED.encode())}

    def _leave(self) -> None:
        for way in self.ways:
            if isinstance(way, ByPgSync):
                way.pgsync.teardown()


def same(found: Documents, wanted: Documents) -> bool:
    """The same ids with the same content; PGSync's own field aside."""
    return {id_: {k: v for k, v in doc.items() if k != "_meta"} for id_, doc in found.items()} == wanted


@contextmanager
def _server(home: Path) -> Iterator[Search]:
    """A server of the benchmark's own, whatever ELASTICSEARCH_URL says: everything in it is deleted again and again."""
    server = EmbeddedElasticsearch(home / "elasticsearch", cache=Settings().elasticsearch_cache)
    try:
        server.start()
    except Missing as error:
        raise Skipped(str(error)) from error
    try:
        with client(server.url) as http:
            yield Search(server.url, http)
    finally:
        server.stop()


def _warm_up(vitrina: Vitrina) -> dict[str, object]:
    """A server just started is slow: fill indexes both ways until it is not. Gives the mapping that everybody has."""
    deadline, last, now = time.monotonic() + 120, float("inf"), 1e9
    while now < last * 0.9 and time.monotonic() < deadline:
        vitrina.search.clear()
        vitrina.prepare()
        ours = vitrina.load()
        floor = Floor(vitrina.db, vitrina.search, vitrina.search.fields(vitrina.index))
        floor.prepare()
        last, now = now, ours + floor.load()
    return floor.fields


def _peers(
    stack: ExitStack, home: Path, search: Search, warehouse: bootstrap.Warehouse, copy: str, fields: dict[str, object]
) -> tuple[list[Way], list[str]]:
    """Those that can be had, and why the others cannot."""
    found: list[Way] = []
    try:
        python = peers.environment(ground.HOME)
        found.append(HelpersBulk(search, warehouse, python, fields))
        redis = stack.enter_context(peers.redis(home))
        pgsync = peers.PgSync(python, home, copy, search.url, redis, search.version())
        found.append(ByPgSync(stack.enter_context(connect(copy, "bench")), search, pgsync, fields))
    except Skipped as reason:
        warn(str(reason))
        return found, [str(reason)]
    return found, []
