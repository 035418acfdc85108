"""A lab whose source is captured: install, capture in the background, read the log, replay it against the tables."""

import json
import os
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

from psycopg import sql

from tests.support import FAST, Lab, differences, wait_for
from vitrina.capture import log
from vitrina.capture.engine import Pace
from vitrina.capture.installation import install
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import Connection, connect
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.runner.capturing import CaptureDesk
from vitrina.runner.identity import Identity
from vitrina.runner.service import Service

SCHEMA = """
CREATE TABLE content.items (
    id integer PRIMARY KEY, title text, price numeric, tags text[], doc jsonb, raw json, at timestamptz, flag boolean,
    pad char(4), bin bytea, span interval, body text, "odd ""name" text
);
ALTER TABLE content.items REPLICA IDENTITY FULL;
CREATE TABLE content.keyed (id integer PRIMARY KEY, title text, body text);
CREATE TABLE content.parts (id integer, day date, note text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE content.parts_1 PARTITION OF content.parts FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE content.parts_2 (note text, day date NOT NULL, id integer NOT NULL, PRIMARY KEY (id, day));
ALTER TABLE content.parts ATTACH PARTITION content.parts_2 FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
ALTER TABLE content.parts REPLICA IDENTITY FULL;
ALTER TABLE content.parts_1 REPLICA IDENTITY FULL;
ALTER TABLE content.parts_2 REPLICA IDENTITY FULL;
CREATE TABLE content.marks (mark text PRIMARY KEY);
"""
EAGER = Pace(renew=0.2, look=0.2, narrow=0.2, quiet=0)
TABLES = ("content.items", "content.keyed", "content.parts", "content.marks")
KEYS = {"content.keyed": ("id",), "content.marks": ("mark",)}
LOGGED = """
    SELECT id, xid::text::bigint AS xid, lsn::text, committed_at, relation, op, old_image::text, new_image::text
    FROM etl_log.{} WHERE id > %s AND id <= %s AND relation = ANY (%s) ORDER BY id
"""


def logged(conn: Connection, source: str, after: int, relations: Sequence[str]) -> list[dict[str, Any]]:
    """The published changes after an id, one by one."""
    last = log.tip(conn, source).last_id
    names = conn.execute("SELECT name FROM etl.etl_change_segments WHERE source = %s ORDER BY first_id", [source])
    queries = [sql.SQL(LOGGED).format(sql.Identifier(row["name"])) for row in names.fetchall()]
    return [row for query in queries for row in conn.execute(query, [after, last, list(relations)])]


@dataclass
class Captured:
    """One source under capture."""

    lab: Lab
    kind: str
    source: str = "warehouse"
    origin: Connection | None = None  # the source, if it is another database
    role: str | None = "vitrina_capture"
    base: int = 0
    generation: int = 1
    tap: str | None = None  # a package's, that reads it
    desks: list[Service] = field(default_factory=list)

    @property
    def conn(self) -> Connection:
        """The source, as its owner."""
        return self.origin or self.lab.db

    @property
    def capture(self) -> Capture:
        """Its row."""
        found = CaptureRepo(self.lab.db).find(self.source)
        assert found is not None
        return found

    def install(self, *tables: str) -> Capture:
        """For the role that captures."""
        return install(self.lab.db, self.conn, self.source, self.kind, tables or TABLES, self.role, self.tap)

    def follow(self) -> None:
        """A live pipeline that has read nothing yet, so that the log is kept from its start."""
        self.lab.sql(
            "INSERT INTO etl.etl_pipelines (name, source, mode, source_query, target_table, key)"
            " VALUES ('follower', %s, 'live', 'SELECT 1', 'analytics.follower', '{id}')",
            self.source,
        )
        self.lab.sql(
            "UPDATE etl.etl_state SET checkpoint = jsonb_build_object('live', jsonb_build_object("
            "'source', source, 'slot', slot, 'generation', 1, 'id', 0)) FROM etl.etl_captures WHERE source = %s",
            self.source,
        )

    def start(self, pace: Pace = EAGER) -> Event:
        """Capture in the background, as a runner of its own."""
        stopping = Event()
        desk = CaptureDesk(self.lab.connections, Identity(name=f"desk {len(self.desks)}"), stopping, pace)
        service = desk.service()
        service.start()
        self.desks.append(service)
        return stopping

    def stop(self) -> None:
        """All of it."""
        for service in self.desks:
            service.stopping.set()
        for service in self.desks:
            service.join()
        self.desks.clear()

    def run(self, *statements: str) -> None:
        """In one transaction at the source."""
        with self.conn.transaction():
            for statement in statements:
                self.conn.execute(statement.encode())

    def empty(self) -> None:
        """No rows from here on, and nothing of what was before."""
        self.run(f"TRUNCATE {', '.join(TABLES)}")
        self.catch_up()
        self.base = log.tip(self.lab.db, self.source).last_id

    def changes(self, *relations: str) -> list[dict[str, Any]]:
        """All there are."""
        rows = logged(self.lab.db, self.source, self.base, relations or TABLES)
        return [row | {name: _load(row[name]) for name in ("old_image", "new_image")} for row in rows]

    def catch_up(self, seconds: float = 20) -> list[dict[str, Any]]:
        """Wait until everything committed so far is in the log; all changes but the marks."""
        mark = str(uuid.uuid4())
        self.run(f"INSERT INTO content.marks VALUES ('{mark}')")

        def arrived() -> bool:
            return any(c["new_image"] == {"mark": mark} for c in self.changes("content.marks")[-50:])

        try:
            wait_for(arrived, seconds)
        except AssertionError:
            raise AssertionError(f"nothing arrived: {self.capture}") from None
        return self.changes(*TABLES[:3])

    def replay(self) -> dict[str, list[str]]:
        """The rows that the log says there are, as images."""
        rows: dict[str, Counter[str]] = {table: Counter() for table in TABLES}
        for change in self.changes():
            table = rows[change["relation"]]
            if change["op"] == "T":
                table.clear()
            old, new = (self._image(change, which) for which in ("old_image", "new_image"))
            if change["op"] in "UD":
                gone = self._row(table, change["relation"], old or new or "{}")
                if new is not None:  # what was not sent has not changed
                    new = _dump(json.loads(gone) | json.loads(new))
                table[gone] -= 1
                assert table[gone] >= 0 or change["relation"] == "content.parts", change
            if new is not None:
                table[new] += 1
        return {name: [*counted.elements()] for name, counted in rows.items()}

    def assert_replay_equals(self, *tables: str) -> None:
        """The log, replayed, gives the tables."""
        replayed = self.replay()
        for table in tables or TABLES[:3]:
            images = sql.Literal("[" + ",".join(replayed[table]) + "]").as_string(None)
            select = f"SELECT * FROM jsonb_populate_recordset(NULL::{table}, {images}::jsonb)"
            if self.origin is None:
                assert differences(self.lab.db, select, table) == 0, table
            else:
                assert differences(self.origin, select, table) == 0, table

    def _image(self, change: dict[str, Any], which: str) -> str | None:
        return _dump(change[which]) if change[which] is not None else None

    def _row(self, table: "Counter[str]", relation: str, image: str) -> str:
        """The row that an image stands for: itself, or the one with its key."""
        if relation not in KEYS:
            return image
        keys = {name: json.loads(image)[name] for name in KEYS[relation]}
        return next(row for row in +table if keys.items() <= json.loads(row).items())


def _load(image: str | None) -> dict[str, Any] | None:
    return json.loads(image) if image else None


def _dump(image: dict[str, Any]) -> str:
    return json.dumps(image, sort_keys=True)


@contextmanager
def own_server(**settings: str) -> Iterator[EmbeddedPostgres]:
    """A server that may be restarted, configured and broken."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-capture-"))
    home.chmod(0o755)
    bin_dir = os.environ.get("VITRINA_TEST_PG_BIN")
    server = EmbeddedPostgres(home / "pg", bin_dir=Path(bin_dir) if bin_dir else None, settings=FAST | settings)
    try:
        server.start()
        yield server
    finally:
        server.purge()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def capturing_from(conninfo: str, kind: str, **settings: Any) -> Iterator[Captured]:
    """A lab whose source `other` is a database of another server, captured by its superuser."""
    with Lab.open("vitrina_template", **settings) as lab, connect(conninfo, "origin") as origin:
        lab.connections = replace(lab.connections, sources={"other": conninfo})
        origin.execute("DROP SCHEMA IF EXISTS content CASCADE; CREATE SCHEMA content")
        origin.execute(SCHEMA.encode())
        captured = Captured(lab, kind, "other", origin, role=None)
        try:
            yield captured
        finally:
            captured.stop()


@contextmanager
def capturing(kind: str, template: str = "vitrina_template", **settings: Any) -> Iterator[Captured]:
    """A lab of its own with tables to capture; ended tidily."""
    with Lab.open(template, **settings) as lab:
        lab.sql(SCHEMA)
        captured = Captured(lab, kind)
        try:
            yield captured
        finally:
            captured.stop()
