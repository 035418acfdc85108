"""A live mart whose source fails over, or is restored, to an older state: the real thing, on a server of its own."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.capturing import Captured, capturing_from, own_server
from tests.living import Living
from tests.support import wait_for
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect


@dataclass
class Source:
    """A captured server that is copied, and comes back from its copy."""

    server: EmbeddedPostgres
    captured: Captured

    def stop(self) -> None:
        """Nobody captures, and the server is down."""
        self.captured.stop()
        self.captured.conn.close()
        self.server.stop()

    def start(self) -> None:
        """Both again."""
        self.server.start()
        self.captured.origin = connect(self.server.conninfo(), "origin")

    def copy(self, source: str, target: str) -> None:
        """A folder of the server, which is down."""
        home = self.server._home
        self.server._account.run(["rm", "-rf", home / target])
        self.server._account.run(["cp", "-a", home / source, home / target])

    def promote(self) -> None:
        """As a standby that takes over: on a timeline of its own."""
        self.server._account.run(["touch", self.server._home / "data" / "standby.signal"])
        self.server.start()
        with psycopg.connect(self.server.conninfo(), autocommit=True) as conn:
            assert conn.execute("SELECT pg_promote()").fetchone() == (True,)


@pytest.fixture
def source() -> Iterator[Source]:
    with own_server(synchronous_commit="on") as server, capturing_from(server.conninfo(), "wal") as captured:
        captured.install()
        yield Source(server, captured)


@pytest.mark.scenario(61)
@pytest.mark.parametrize(
    ("how", "said"), [("failover", "timeline"), pytest.param("restore", "set back", marks=pytest.mark.long)]
)
def test_a_source_that_comes_back_older_is_noticed_and_compared_and_ends_equal(
    source: Source, how: str, said: str
) -> None:
    live = Living(source.captured.lab, source.captured)
    live.captured.run("INSERT INTO content.keyed SELECT n, 'old' FROM generate_series(1, 20) n")
    pipeline = live.add("SELECT id, title FROM content.keyed", ["id"])
    live.captured.start()
    live.follow(pipeline)
    source.stop()
    source.copy("data", "backup")
    source.start()
    live.captured.start()
    live.captured.run("DELETE FROM content.keyed WHERE id < 5", "INSERT INTO content.keyed VALUES (21, 'lost')")
    live.follow(pipeline)
    live.assert_equal(pipeline)

    source.stop()
    source.copy("backup", "data")
    if how == "failover":
        source.promote()
    source.start()
    generation = live.tip.generation
    live.captured.start()
    wait_for(lambda: live.tip.generation > generation, 30)
    run = live.follow(pipeline)
    assert said in live.why(pipeline)
    assert (run["rows_written"], run["rows_deleted"]) == (4, 1)
    live.assert_equal(pipeline)
    live.captured.run("UPDATE content.keyed SET title = 'new' WHERE id = 1")
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    live.assert_equal(pipeline)
