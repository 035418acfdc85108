"""Connections that are cut, lose the answer, are slow or dead, between a runner and both of its servers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from tests.elastic import Search
from tests.faults.children import CURSOR, ITEMS, Nursery
from tests.faults.oracle import Oracle
from tests.patience import SHORT_LEASE
from tests.support import Lab, wait_for
from tests.wire import COMMIT, Trouble, Wire, through, to_postgres, wired

pytestmark = pytest.mark.faults
FENCE = b"SET seq = seq + 1"
EXPIRED = "SELECT count(*) FROM etl.etl_leases WHERE owner IS NOT NULL AND expires_at < clock_timestamp()"


@pytest.fixture
def oracle(lab: Lab) -> Oracle:
    lab.sql("CREATE TABLE content.items (id int PRIMARY KEY, title text, at timestamptz DEFAULT now())")
    lab.sql("INSERT INTO content.items SELECT n, 'item ' || n FROM generate_series(1, 60) n")
    lab.sql("GRANT SELECT ON content.items TO vitrina_reader")
    oracle = Oracle(lab)
    oracle.watch()
    return oracle


@pytest.fixture
def wire(lab: Lab) -> Iterator[Wire]:
    """To the warehouse."""
    with wired(to_postgres(lab.conninfo)) as wire:
        ways = lab.connections
        lab.connections = replace(
            ways, warehouse=through(wire, ways.warehouse), reader=through(wire, ways.reader), listen=lab.conninfo
        )
        yield wire


@pytest.mark.scenario(12)
@pytest.mark.parametrize("how", ["cut", "lose"])
@pytest.mark.parametrize("mode", [{}, CURSOR], ids=["full", "incremental"])
def test_of_a_commit_that_is_cut_off_the_checkpoint_tells_whether_it_arrived_and_it_is_applied_once(
    lab: Lab, oracle: Oracle, wire: Wire, mode: dict[str, Any], how: str
) -> None:
    pipeline = lab.add(source_query=ITEMS, key=["id"], batch_size=10, **mode)
    wire.trouble = Trouble(how, COMMIT, after=FENCE, skip=4)
    run = lab.run(pipeline)
    assert (wire.happened, run["attempt"], run["status"]) == (1, 2, "SUCCESS")
    oracle.assert_all_well(pipeline)
    assert lab.sql("SELECT rows_written FROM etl.etl_runs") == [(60,)]
    moves = lab.value("SELECT count(*) FROM oracle.moves WHERE seq > seq_before")
    assert moves == lab.value("SELECT seq FROM etl.etl_state")


def test_a_connection_that_is_dead_for_longer_than_a_lease_delays_and_loses_nothing(
    lab: Lab, oracle: Oracle, wire: Wire
) -> None:
    """Nothing passes and nobody is told, until the wire is healed."""
    lab.configure(lease_seconds=SHORT_LEASE)
    pipeline = lab.add(source_query=ITEMS, key=["id"], batch_size=10)
    wire.trouble = Trouble("swallow", COMMIT, after=FENCE, skip=3)
    lab.request(pipeline)
    with lab.runner():
        try:
            wait_for(lambda: wire.happened)
            wire.block()  # the heartbeat's too
            wait_for(lambda: lab.value(EXPIRED) or lab.last_run(pipeline)["attempt"] > 1)
        finally:
            wire.heal()
        wait_for(lambda: lab.status(pipeline) == "IDLE", 30)
    oracle.assert_all_well(pipeline)


@pytest.mark.parametrize("how", ["cut", "lose", "delay"])
def test_a_bulk_whose_connection_is_cut_or_slow_is_there_once(search: Search, elastic: str, how: str) -> None:
    nursery, address = Nursery(search), urlsplit(elastic)
    with wired(Wire((str(address.hostname), int(address.port or 80)))) as wire:
        search.lab.configure(elasticsearch_url=SecretStr(f"http://127.0.0.1:{wire.port}"))
        pipeline = nursery.add("wired")
        wire.trouble = Trouble(how, b"/_bulk", seconds=0.3)
        assert search.lab.run(pipeline)["attempt"] == 1
        nursery.change()
        wire.trouble = Trouble(how, b"/_bulk", seconds=0.3)
        assert search.lab.run(pipeline)["attempt"] == 1
        assert wire.happened == 2
    nursery.assert_all_well(pipeline)
