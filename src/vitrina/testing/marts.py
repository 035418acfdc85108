"""Marts as the suites see them, and what they are held to: their query, row for row."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from vitrina.domain.pipeline import Pipeline
from vitrina.sinks.documents.sink import DocumentSink, Visit
from vitrina.sinks.registry import resolve_sink
from vitrina.stores import Batch, Store
from vitrina.testing.labs import Lab

Rows = dict[str, dict[str, Any]]
LATE = 2**62  # a version above all


class AnyMart(Protocol):
    """A mart, as a test sees it."""

    @property
    def lab(self) -> Lab:
        """Where its pipelines are."""
        ...

    @property
    def target(self) -> str:
        """For `target_table`."""
        ...

    def rows(self, key: list[str]) -> Rows:
        """All that it holds: key as text (parts joined by `|`), row as JSON."""
        ...

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        """By hand: another title, one row less, one more."""
        ...


@dataclass
class Mart:
    """A mart of a store, read through the store; whoever can look at it as its readers do overrides `rows`."""

    lab: Lab
    target: str

    def rows(self, key: list[str]) -> Rows:
        """Of the set that is served."""
        del key
        with self.opened() as store:
            held = [document for name in store.served() for document in store.read(name)]
        return {document.id: json.loads(document.text or "", parse_float=str) for document in held}

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        """Past Vitrina, by the store's own `write`."""
        other = self.rows([])[changed] | {"title": "damaged"}
        rows = {changed: json.dumps(other), deleted: "", str(added["id"]): json.dumps(added)}
        lines = "".join(f"{json.dumps(id_)}\n{text}\n" for id_, text in rows.items())
        with self.opened() as store:
            [name] = store.served()
            store.write(name, Batch(1, lines.encode(), len(rows)), LATE)

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store, as somebody else would open it."""
        sink = resolve_sink(self.target)
        assert isinstance(sink, DocumentSink)
        with closing(sink.open(Visit(self.lab.connections.settings, uuid4(), self.target))) as store:
            yield store


def as_rows(lab: Lab, select: str, key: list[str]) -> Rows:
    """What a query gives, in the same form."""
    lab.sql("SET timezone = 'UTC'")
    id_ = ", ".join(rf"replace(replace(q.{name}::text, '\', '\\'), '|', '\|')" for name in key)
    id_ = f"concat_ws('|', {id_})" if len(key) > 1 else f"q.{key[0]}::text"
    found = lab.sql(f"SELECT {id_}, row_to_json(q)::text FROM ({select}) AS q")
    rows = {id_: json.loads(text, parse_float=str) for id_, text in found}
    assert len(rows) == len(found)
    return rows


def went(mart: AnyMart, pipeline: Pipeline, **options: bool) -> tuple[int, int]:
    """Run it well: how many rows were written and deleted."""
    run = mart.lab.run(pipeline, **options)
    rests = "FOLLOWING" if pipeline.mode == "live" else "IDLE"
    assert (run["error"], run["status"], mart.lab.status(pipeline)) == (None, "SUCCESS", rests)
    return run["rows_written"], run["rows_deleted"]


def failed(mart: AnyMart, pipeline: Pipeline, **options: bool) -> str:
    """The error of a run that fails."""
    run = mart.lab.run(pipeline, **options)
    assert (run["status"], mart.lab.status(pipeline)) == ("FAILED", "FAILED")
    return str(run["said"])


def assert_equal(mart: AnyMart, pipeline: Pipeline) -> None:
    """Mart and query hold the same, and nothing of a run is left behind."""
    select = pipeline.source_query or f"SELECT * FROM {pipeline.source_table}"
    assert mart.rows(list(pipeline.key)) == as_rows(mart.lab, select, list(pipeline.key))
    assert_tidy(mart.lab)


LEFT = """
    SELECT t.tablename FROM pg_tables t WHERE t.schemaname = 'etl_stage' AND NOT EXISTS (
        SELECT FROM etl.etl_pipelines p
        WHERE p.status = 'FOLLOWING' AND right(t.tablename, 32) = replace(p.id::text, '-', ''))
"""


def assert_tidy(lab: Lab) -> None:
    """No scratch table but of those that are followed, nothing in flight, no tombstone."""
    assert lab.sql(LEFT) == []
    assert lab.sql("SELECT * FROM etl.etl_indexes WHERE state <> 'retired' AND confirmed <> last_version") == []
    for (table,) in lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_shadow'"):
        unknown = f"SELECT * FROM etl_shadow.{table} WHERE vitrina_hash IS NULL OR vitrina_hash = ''"
        assert lab.sql(unknown) == []


AT_BATCH = """
    CREATE FUNCTION content.at_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        {}; RETURN NULL; END $$;
    CREATE TRIGGER at_batch AFTER UPDATE ON etl.etl_runs FOR EACH ROW
        WHEN (old.batches < {} AND new.batches >= {}) EXECUTE FUNCTION content.at_batch()"""


def at_batch(lab: Lab, number: int, statement: str) -> None:
    """Let something happen in the very transaction of a batch."""
    lab.sql("DROP TRIGGER IF EXISTS at_batch ON etl.etl_runs; DROP FUNCTION IF EXISTS content.at_batch")
    lab.sql(AT_BATCH.format(statement, number, number))


def pause_at_batch(lab: Lab, pipeline: Pipeline, number: int) -> None:
    """Somebody asks for a pause."""
    status = "UPDATE etl.etl_pipelines SET status = 'PAUSE_REQUESTED'"
    at_batch(lab, number, f"{status} WHERE id = '{pipeline.id}' AND status = 'RUNNING'")


def make_items(lab: Lab, count: int) -> None:
    """Table content.item."""
    lab.sql("CREATE TABLE content.item (id int, title text, price numeric(9, 2), at timestamptz DEFAULT now())")
    lab.sql("GRANT SELECT ON content.item TO vitrina_reader")
    add_items(lab, 1, count)


def add_items(lab: Lab, first: int, last: int) -> None:
    """More of them."""
    lab.sql("INSERT INTO content.item SELECT n, 'item ' || n, n + 0.5 FROM generate_series(%s::int, %s) n", first, last)


def items(mart: AnyMart, count: int = 10, **config: Any) -> Pipeline:
    """Table content.item and a pipeline over it, not yet run."""
    make_items(mart.lab, count)
    return mart.lab.add(
        **({"source_query": ITEMS, "key": ["id"], "batch_size": 3, "target_table": mart.target} | config)
    )


ITEMS = "SELECT id, title, price, at FROM content.item"
CURSOR: dict[str, Any] = {"mode": "incremental", "incremental_key": "at", "incremental_id_key": "id"}
