"""The nursery of the faults of an index: its runs, and what must hold when its children are gone."""

from typing import Any

from tests.elastic import Search
from tests.faults.oracle import Oracle
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.testing import faults
from vitrina.testing.faults import FORKS as FORKS
from vitrina.testing.faults import is_stopped as is_stopped
from vitrina.testing.faults import killed as killed
from vitrina.testing.faults import run_once as run_once

FORKS.set_forkserver_preload(["tests.faults.children"])
ITEMS = "SELECT i.id, i.title, i.at FROM content.items i"
CURSOR = {"mode": "incremental", "incremental_key": "at", "incremental_id_key": "id"}


class Nursery(faults.Nursery):
    """A lab with an index, its children, and what must hold when they are gone."""

    lab: Lab

    def __init__(self, search: Search) -> None:
        super().__init__(search.lab)
        self.search = search
        self.lab.sql("CREATE TABLE content.items (id int PRIMARY KEY, title text, at timestamptz DEFAULT now())")
        self.lab.sql("INSERT INTO content.items SELECT n, 'item ' || n FROM generate_series(1, 60) n")
        self.lab.sql("GRANT SELECT ON content.items TO vitrina_reader")
        self.oracle = Oracle(self.lab, self.search)
        self.oracle.watch()

    def add(self, name: str, **config: Any) -> Pipeline:
        """A pipeline of six batches."""
        values = {"source_query": ITEMS, "key": ["id"], "batch_size": 10}
        return self.search.add(name, **(values | config))

    def change(self) -> None:
        """Updates, inserts and deletes; a cursor sees all but the deletes."""
        self.lab.sql("UPDATE content.items SET title = title || '!', at = clock_timestamp() WHERE id % 2 = 0")
        last = self.lab.value("SELECT max(id) FROM content.items")
        self.lab.sql("INSERT INTO content.items SELECT %s::int + n, 'new' FROM generate_series(1, 5) n", last)
        self.lab.sql("DELETE FROM content.items WHERE id IN (SELECT id FROM content.items ORDER BY md5(title) LIMIT 5)")

    def assert_all_well(self, pipeline: Pipeline) -> None:
        """Ask the oracle."""
        self.oracle.assert_all_well(pipeline)
