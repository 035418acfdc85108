"""The kinds of marts behind one face, for the tests that every writer must pass."""

import json
import sqlite3
import zipfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hatchling.builders.wheel import WheelBuilder

from tests.elastic import Search
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline

EXAMPLE = Path(__file__).parents[1] / "examples" / "sqlite-writer"
Rows = dict[str, dict[str, Any]]
AT_BATCH = """
    CREATE FUNCTION content.at_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        {}; RETURN NULL; END $$;
    CREATE TRIGGER at_batch AFTER UPDATE ON etl.etl_runs FOR EACH ROW
        WHEN (old.batches < {} AND new.batches >= {}) EXECUTE FUNCTION content.at_batch()"""


class Sink(Protocol):
    """A mart, as a test sees it."""

    lab: Lab

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
class TableSink:
    """A table of the warehouse."""

    lab: Lab
    target: str = "analytics.mart"

    def rows(self, key: list[str]) -> Rows:
        return as_rows(self.lab, f"SELECT * FROM {self.target}", key)

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        self.lab.sql(f"UPDATE {self.target} SET title = 'damaged' WHERE id::text = %s", changed)
        self.lab.sql(f"DELETE FROM {self.target} WHERE id::text = %s", deleted)
        values = json.dumps(added)
        self.lab.sql(f"INSERT INTO {self.target} SELECT * FROM json_populate_record(NULL::{self.target}, %s)", values)


@dataclass
class IndexSink:
    """An index of Elasticsearch."""

    search: Search
    lab: Lab = field(init=False)

    def __post_init__(self) -> None:
        self.lab = self.search.lab

    @property
    def target(self) -> str:
        return f"es:{self.search.name('mart')}"

    def rows(self, key: list[str]) -> Rows:
        documents = self.search.documents("mart")
        if len(key) == 1:
            assert list(documents) == [str(document[key[0]]) for document in documents.values()]
        return documents

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        http, name = self.search.http, self.search.name("mart")
        document = self.search.documents("mart")[changed] | {"title": "damaged"}
        http.put(f"/{name}/_doc/{changed}", json=document).raise_for_status()
        http.delete(f"/{name}/_doc/{deleted}").raise_for_status()
        http.put(f"/{name}/_doc/{added['id']}", json=added).raise_for_status()


@dataclass
class SqliteSink:
    """A SQLite file, by the plug-in of docs/extending.md."""

    lab: Lab
    folder: Path
    target: str = "sqlite:mart"

    def rows(self, key: list[str]) -> Rows:
        if not self.db.execute("SELECT served FROM vitrina_mart WHERE served IS NOT NULL").fetchall():
            return {}
        documents = self.db.execute(f'SELECT id, document FROM "{self.served}"').fetchall()
        return {id_: json.loads(text, parse_float=str) for id_, text in documents}

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        with closing(self.db) as db, db:
            new = "json_set(document, '$.title', 'damaged')"
            db.execute(f'UPDATE "{self.served}" SET document = {new} WHERE id = ?', [changed])
            db.execute(f'DELETE FROM "{self.served}" WHERE id = ?', [deleted])
            db.execute(f'INSERT INTO "{self.served}" VALUES (?, 1, ?)', [str(added["id"]), json.dumps(added)])

    @property
    def db(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "mart.sqlite")

    @property
    def served(self) -> str:
        return str(self.db.execute("SELECT served FROM vitrina_mart").fetchone()[0])


def install_example(folder: Path) -> None:
    """The plug-in's own wheel, unpacked as pip does: what is on `sys.path` there is installed."""
    (wheel,) = WheelBuilder(str(EXAMPLE)).build(directory=str(folder))
    zipfile.ZipFile(wheel).extractall(folder)


def as_rows(lab: Lab, select: str, key: list[str]) -> Rows:
    """What a query gives, in the same form."""
    lab.sql("SET timezone = 'UTC'")
    id_ = ", ".join(rf"replace(replace(q.{name}::text, '\', '\\'), '|', '\|')" for name in key)
    id_ = f"concat_ws('|', {id_})" if len(key) > 1 else f"q.{key[0]}::text"
    found = lab.sql(f"SELECT {id_}, row_to_json(q)::text FROM ({select}) AS q")
    rows = {id_: json.loads(text, parse_float=str) for id_, text in found}
    assert len(rows) == len(found)
    return rows


def went(sink: Sink, pipeline: Pipeline, **options: bool) -> tuple[int, int]:
    """Run it well: how many rows were written and deleted."""
    run = sink.lab.run(pipeline, **options)
    assert (run["error"], run["status"], sink.lab.status(pipeline)) == (None, "SUCCESS", "IDLE")
    return run["rows_written"], run["rows_deleted"]


def failed(sink: Sink, pipeline: Pipeline, **options: bool) -> str:
    """The error of a run that fails."""
    run = sink.lab.run(pipeline, **options)
    assert (run["status"], sink.lab.status(pipeline)) == ("FAILED", "FAILED")
    return str(run["said"])


def assert_equal(sink: Sink, pipeline: Pipeline) -> None:
    """Mart and query hold the same, and nothing of a run is left behind."""
    select = pipeline.source_query or f"SELECT * FROM {pipeline.source_table}"
    assert sink.rows(list(pipeline.key)) == as_rows(sink.lab, select, list(pipeline.key))
    assert_tidy(sink.lab)


def assert_tidy(lab: Lab) -> None:
    """No scratch table, nothing in flight, no tombstone."""
    assert lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_stage'") == []
    assert lab.sql("SELECT * FROM etl.etl_indexes WHERE state <> 'retired' AND confirmed <> last_version") == []
    for (table,) in lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_shadow'"):
        unknown = f"SELECT * FROM etl_shadow.{table} WHERE vitrina_hash IS NULL OR vitrina_hash = ''"
        assert lab.sql(unknown) == []


def at_batch(lab: Lab, number: int, statement: str) -> None:
    """Let something happen in the very transaction of a batch."""
    lab.sql("DROP TRIGGER IF EXISTS at_batch ON etl.etl_runs; DROP FUNCTION IF EXISTS content.at_batch")
    lab.sql(AT_BATCH.format(statement, number, number))


def pause_at_batch(lab: Lab, pipeline: Pipeline, number: int) -> None:
    """Somebody asks for a pause."""
    status = "UPDATE etl.etl_pipelines SET status = 'PAUSE_REQUESTED'"
    at_batch(lab, number, f"{status} WHERE id = '{pipeline.id}' AND status = 'RUNNING'")
