"""Reconcile a mart elsewhere: what it really holds, read from one point in time, against the query's documents.

Not the shadow, which is only what we think it holds. Documents are compared by hash; of those that differ, the fields
are shown.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from psycopg import sql

from vitrina.domain.errors import ConfigError
from vitrina.domain.request import ReconcileParams
from vitrina.engine.job import Job, execute
from vitrina.engine.mart import Mart
from vitrina.engine.pieces import SHOWN_LENGTH
from vitrina.engine.reading import why_apart
from vitrina.engine.stage import SCHEMA, KeySegment
from vitrina.engine.work import Work
from vitrina.inquiries.inquiry import Inquiry
from vitrina.inquiries.outcome import KINDS, differs, outcome
from vitrina.inquiries.report import ReportSql
from vitrina.meta.db import transaction
from vitrina.sinks.documents.mirror import ID, Mirrored, mirror
from vitrina.sinks.documents.shape import DOCUMENT
from vitrina.sinks.documents.sink import writer_of
from vitrina.sinks.documents.statements import HASH, HASHED, NOTHING, ShadowSql, made_once, shadow_columns
from vitrina.sql.describe import Column
from vitrina.stores import Document, Store
from vitrina.transforms import Row

CONTROL = "vitrina_control"
COMPARED = (Column(ID, "text"), Column(HASH, "bytea"), Column(CONTROL, "text"))
MOMENT_SECONDS = 1.5  # longer than an index takes to show what it was sent


@dataclass
class DocumentReconciliation:
    """One comparison of such a mart with its query. Writes to nothing but scratch tables."""

    inquiry: Inquiry
    params: ReconcileParams
    job: Job
    store: Store
    work: Work = field(init=False)

    def report(self) -> dict[str, Any]:
        """The same report as a table's; the ends of the control field are compared as text."""
        started = time.monotonic()
        self._prepare()
        why = why_apart(self.work)
        if why:
            self._fill(why)
        self._mirror()
        summary = self._read(self.statements.summary(self._scope(), CONTROL, as_text=True))[0]
        if summary["joined"] > summary["mart_rows"]:
            self.work.refuse_duplicates(self._read(self.work.statements.duplicates(self._source)))
        details = self._look_again() if differs(summary) else []
        return outcome(self.inquiry, self.job, summary, details, self.control, why) | {
            "samples": self._samples(details),
            "key": list(self.writer.shape.key),
            "columns": [c.name for c in self.writer.fields],
            "lacking_columns": [],
            "seconds": round(time.monotonic() - started, 3),
        }

    # ── both sides ───────────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        self.writer = writer_of(self.job)
        self.served = [*self.store.served()]
        if not self.served:
            raise ConfigError(f"{self.inquiry.plan.target} does not exist yet", "run the pipeline first")
        names = [c.name for c in self.writer.fields]
        asked = self.params.control_field
        if asked and asked not in names:
            raise ConfigError(f"control field {asked} is not compared", f"choose one of {', '.join(names)}")
        self.control = asked or next(iter(self.inquiry.plan.cursor or ()), self.writer.shape.key[0])
        self.mirrored = Mirrored(self.job.pipeline_id, COMPARED)
        self.statements = ReportSql(_mart(self.mirrored, COMPARED, (ID,)))
        keyed = _mart(self.mirrored, shadow_columns(tuple(self.writer.key_columns)), self.writer.shape.key)
        self.work = Work(self.job, keyed, [])

    def _fill(self, why: str) -> None:
        with self.inquiry.scratch() as conn:
            _, self.work = self.work.fill(conn, why)

    def _mirror(self) -> None:
        with self.inquiry.scratch() as conn:
            mirror(conn, self.mirrored, self._documents_held(), self.control, self.job.check)

    def _documents_held(self) -> Iterator[Document]:
        return chain.from_iterable(map(self.store.read, self.served))

    @property
    def _source(self) -> sql.Composable:
        return self.work.stage.identifier if self.work.staged else self.work.query.source

    def _documents(self) -> sql.Composed:
        """The query's documents, each with its id."""
        assert isinstance(self.work.statements, ShadowSql)
        text = "(SELECT {} AS {}, t.{} FROM {} AS t)"
        parts = (self.writer.shape.id_of("t"), sql.Identifier(ID), sql.Identifier(DOCUMENT))
        return sql.SQL(text).format(*parts, self.work.statements.documents(self._source))

    def _scope(self, condition: sql.Composable = NOTHING) -> sql.Composed:
        """What is compared of them."""
        text = "(SELECT t.{}, {}, t.{}::json ->> {} AS {} FROM {} AS t)"
        document, control = sql.Identifier(DOCUMENT), sql.Literal(self.control)
        names = (sql.Identifier(ID), HASHED, document, control, sql.Identifier(CONTROL))
        return sql.SQL(text).format(*names, made_once(self._documents(), (ID,), condition))

    # ── a second look ────────────────────────────────────────────────────────────────────────────────────────

    def _look_again(self) -> list[Row]:
        """Keep the ids that differ, wait for what is on its way, and compare just these."""
        keys = KeySegment(self.job.pipeline_id, (Column(ID, "text"),))
        ids = [row[ID] for row in self._read(self._differing())]
        deadline = time.monotonic() + MOMENT_SECONDS
        while time.monotonic() < deadline:
            self.inquiry.check()
            time.sleep(0.05)
        if self.work.staged:
            self._fill("looking again")
        self._mirror()
        with self.inquiry.scratch() as conn:
            keys.create(conn)
            with keys.copy_in(conn, "text") as copy:
                for id_ in ids:
                    copy.write_row(["u", id_])
            keys.finish(conn)
        among = sql.SQL("WHERE t.{0} IN (SELECT {0} FROM {1})").format(sql.Identifier(ID), keys.identifier)
        return self._read(self.statements.details(self._scope(among), keys.identifier, self.params.sample))

    def _differing(self) -> sql.Composed:
        return sql.SQL("SELECT {} FROM ({}) AS c (kind, {})").format(
            sql.Identifier(ID), self.statements.compare(self._scope()), sql.Identifier(ID)
        )

    def _read(self, statement: sql.Composable) -> list[Row]:
        """Where the documents are: as the reader in place, or in the stage."""
        if not self.work.staged:
            return self.job.reader.fetch(statement)
        with transaction(self.inquiry.conn, self.inquiry.reading, read_only=True) as conn:
            return execute(conn, statement).fetchall()

    # ── what is shown ────────────────────────────────────────────────────────────────────────────────────────

    def _samples(self, details: list[Row]) -> dict[str, list[dict[str, Any]]]:
        shown = {
            kind: [row["key"][0] for row in details if row["kind"] == kind][: self.params.sample] for kind in KINDS
        }
        ids = [id_ for kind in KINDS for id_ in shown[kind]]
        wanted, held = self._wanted(ids), self._held(ids)
        return {kind: [self._sample(id_, wanted.get(id_), held.get(id_)) for id_ in shown[kind]] for kind in KINDS}

    def _wanted(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        text = sql.SQL("SELECT d.{0} AS id, d.{1} AS doc FROM {2} AS d WHERE d.{0} = ANY ({3})").format(
            sql.Identifier(ID), sql.Identifier(DOCUMENT), self._documents(), sql.Literal(list(ids))
        )
        return {row["id"]: _exact(row["doc"]) for row in self._read(text)} if ids else {}

    def _held(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        found = [document for name in self.served for document in self.store.find(name, ids)] if ids else []
        return {document.id: _exact(document.text) for document in found if document.text}

    def _sample(self, id_: str, wanted: dict[str, Any] | None, held: dict[str, Any] | None) -> dict[str, Any]:
        document = wanted or held or {}
        known = all(name in document for name in self.writer.shape.key)
        key = {name: document[name] for name in self.writer.shape.key} if known else {"_id": id_}
        if wanted is None or held is None:
            return {"key": key}
        differ = [name for name in {**wanted, **held} if wanted.get(name) != held.get(name)]
        pairs = {name: {"query": _shown(wanted.get(name)), "mart": _shown(held.get(name))} for name in differ}
        return {"key": key, "columns": pairs}


def _mart(mirrored: Mirrored, columns: Sequence[Column], key: tuple[str, ...]) -> Mart:
    types = {c.name: c.type for c in columns}
    table = f"{mirrored.prefix}_{mirrored.pipeline_id.hex}"
    collations = {name: '"C"' for name in key if name == ID}
    operators = {c.name: c.operators for c in columns}
    return Mart(
        SCHEMA, table, key, tuple(columns), types, collations, stamped=False, pushable=True, operators=operators
    )


def _exact(text: str) -> Any:
    """JSON whose numbers keep their digits."""
    return json.loads(text, parse_float=str)


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}… ({len(text)} characters)"
