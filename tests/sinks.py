"""The kinds of marts behind one face, for the tests that every kind must pass."""

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
from vitrina.testing.marts import AnyMart, Rows
from vitrina.testing.marts import as_rows as as_rows
from vitrina.testing.marts import assert_equal as assert_equal
from vitrina.testing.marts import assert_tidy as assert_tidy
from vitrina.testing.marts import at_batch as at_batch
from vitrina.testing.marts import failed as failed
from vitrina.testing.marts import pause_at_batch as pause_at_batch
from vitrina.testing.marts import went as went

EXAMPLE = Path(__file__).parents[1] / "examples" / "sqlite-writer"


class Sink(AnyMart, Protocol):
    """A mart in a lab of ours."""

    @property
    def lab(self) -> Lab: ...


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
    """An index of a search engine."""

    search: Search
    lab: Lab = field(init=False)

    def __post_init__(self) -> None:
        self.lab = self.search.lab

    @property
    def target(self) -> str:
        return self.search.target("mart")

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
