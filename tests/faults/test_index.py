"""Runners of an index that are killed or stopped at every named place, and servers that go away in between."""

import os
import random
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.elastic import BOTH, Search, open_search
from tests.faults.children import CURSOR, Nursery, killed
from tests.faults.driver import ROUNDS
from tests.patience import patient
from tests.sinks import pause_at_batch
from tests.support import Lab, wait_for
from vitrina.embedded.distribution import Missing
from vitrina.embedded.elasticsearch import EmbeddedElasticsearch
from vitrina.settings import Settings
from vitrina.sinks.search import bulk
from vitrina.testing.faults import BUILDING, SENDING

pytestmark = pytest.mark.faults
engines = BOTH

MODES = pytest.mark.parametrize(
    "mode", [pytest.param({}, id="full"), pytest.param(CURSOR, id="incremental", marks=pytest.mark.long)]
)


@pytest.fixture
def nursery(search: Search) -> Iterator[Nursery]:
    nursery = Nursery(search)
    yield nursery
    nursery.end()


@pytest.mark.parametrize("point", BUILDING)
@MODES
def test_a_first_load_killed_anywhere_is_gone_on_with(nursery: Nursery, point: str, mode: dict[str, Any]) -> None:
    pipeline = nursery.add("load", **mode)
    nursery.kill_at(pipeline, killed(point))
    nursery.change()
    run = nursery.take_over(pipeline)
    assert (run["attempt"], run["error"], run["status"]) == (2, None, "SUCCESS")
    nursery.lab.run(pipeline)
    nursery.assert_all_well(pipeline)
    assert len(nursery.search.serves("load")) == 1


@MODES
@pytest.mark.scenario(2)
def test_changes_killed_anywhere_also_between_bulk_and_checkpoint_are_there_once(
    nursery: Nursery, mode: dict[str, Any]
) -> None:
    pipeline = nursery.add("changes", **mode)
    nursery.lab.run(pipeline)
    for point in SENDING:
        nursery.change()
        nursery.kill_at(pipeline, killed(point))
        nursery.take_over(pipeline)
        nursery.assert_all_well(pipeline)
    assert nursery.search.serves("changes") == ["changes-000001"]


@pytest.mark.parametrize("how", ["kill", "pause"])
@MODES
def test_who_sends_again_what_is_in_doubt_may_be_stopped_too(nursery: Nursery, mode: dict[str, Any], how: str) -> None:
    """And what is in doubt then is no less."""
    pipeline = nursery.add("doubt", **mode, batch_size=25)
    nursery.lab.run(pipeline)
    nursery.change()
    nursery.kill_at(pipeline, killed("before send:1"))
    nursery.lab.sql("DELETE FROM content.items WHERE id % 2 = 0")
    nursery.lab.sql("UPDATE etl.etl_pipelines SET batch_size = 3")
    nursery.lab.sql("UPDATE etl.etl_leases SET expires_at = clock_timestamp(), crashes = 0 WHERE owner IS NOT NULL")
    if how == "kill":
        nursery.kill_at(pipeline, killed("before send:4"))
        nursery.take_over(pipeline)
    else:
        pause_at_batch(nursery.lab, pipeline, 3)
        assert nursery.take_over(pipeline)["status"] == "PAUSED"
        nursery.lab.sql("DROP TRIGGER at_batch ON etl.etl_runs")
        nursery.lab.run(pipeline)
    nursery.assert_all_well(pipeline)


@pytest.mark.scenario(43)
def test_a_rebuild_killed_anywhere_leaves_the_old_index_served_or_the_new_one(nursery: Nursery) -> None:
    pipeline = nursery.add("built")
    nursery.lab.run(pipeline)
    for point in BUILDING if ROUNDS else ["index created:1", "after send:2", "before swap:1", "after swap:1"]:
        before = nursery.search.documents("built")
        nursery.change()
        nursery.kill_at(pipeline, killed(point), rebuild=True)
        if not point.startswith("after swap"):
            assert nursery.search.documents("built") == before
        nursery.take_over(pipeline)
        nursery.assert_all_well(pipeline)


@MODES
@pytest.mark.scenario(4)
def test_a_runner_stopped_in_the_middle_of_a_bulk_writes_nothing_when_it_goes_on(
    nursery: Nursery, mode: dict[str, Any]
) -> None:
    pipeline = nursery.add("zombie", **mode)
    nursery.lab.run(pipeline)
    nursery.change()
    zombie = nursery.stop_at(pipeline, "before send=stop:2")
    nursery.lab.sql("DELETE FROM content.items WHERE id % 2 = 0")
    nursery.take_over(pipeline)
    nursery.lab.run(pipeline, repair=True)
    nursery.search.forget_deletes("zombie")
    nursery.assert_all_well(pipeline)
    sent = nursery.search.sent("zombie")
    nursery.go_on(zombie)
    nursery.assert_all_well(pipeline)
    assert nursery.search.sent("zombie") == sent
    assert nursery.lab.run(pipeline)["rows_written"] == 0


@pytest.mark.parametrize("point", ["index created", "before swap"])
def test_a_runner_stopped_in_a_rebuild_serves_nothing_when_it_goes_on(nursery: Nursery, point: str) -> None:
    pipeline = nursery.add("zombie")
    nursery.lab.run(pipeline)
    zombie = nursery.stop_at(pipeline, f"{point}=stop", rebuild=True)
    nursery.take_over(pipeline)
    nursery.change()
    nursery.lab.run(pipeline, rebuild=True)
    serves = nursery.search.serves("zombie")
    nursery.go_on(zombie)
    assert nursery.search.serves("zombie") == serves
    nursery.lab.run(pipeline)
    nursery.assert_all_well(pipeline)


def test_runners_killed_at_any_moment(nursery: Nursery) -> None:
    rng = random.Random(ROUNDS)
    pipelines = [nursery.add("a"), nursery.add("b", **CURSOR, batch_size=7)]
    for number in range(max(4, ROUNDS)):
        pipeline = pipelines[number % 2]
        nursery.change()
        child = nursery.start(pipeline, rebuild=rng.random() < 0.2)
        child.join(rng.uniform(0.1, 1.2))
        child.kill()
        child.join()
        nursery.change()
        nursery.take_over(pipeline)
        nursery.lab.run(pipeline)
        nursery.assert_all_well(pipeline)


# ── a server of its own ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def server() -> Iterator[EmbeddedElasticsearch]:
    """One that a test may kill."""
    home = Path(tempfile.mkdtemp(prefix="vitrina-es-"))
    home.chmod(0o755)
    version = os.environ.get("VITRINA_TEST_ES_VERSION")
    server = EmbeddedElasticsearch(home / "es", version=version, cache=Settings().elasticsearch_cache)
    try:
        server.start()
        yield server
    except Missing as error:
        pytest.skip(str(error))
    finally:
        server.purge()
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.scenario(41, 44)
@pytest.mark.long
@pytest.mark.elasticsearch
def test_a_server_is_killed_in_the_middle_of_a_run(
    lab: Lab, server: EmbeddedElasticsearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgets at a restart which versions were deleted; what a stopped runner sends then stays away even so."""
    monkeypatch.setattr(bulk, "PATIENCE", 300)  # however long its start takes here
    with open_search(lab, server.url, f"t_{uuid.uuid4().hex[:12]}_") as search:
        nursery = Nursery(search)
        try:
            restart_in_the_middle(nursery, server)
        finally:
            nursery.end()


def restart_in_the_middle(nursery: Nursery, server: EmbeddedElasticsearch) -> None:
    pipeline = nursery.add("survivor", batch_size=2)
    zombie = nursery.stop_at(pipeline, "before send=stop:3")
    nursery.take_over(pipeline)
    nursery.lab.sql("DELETE FROM content.items WHERE id <= 20")
    nursery.lab.run(pipeline)
    nursery.lab.sql("UPDATE content.items SET title = title || '?'")
    before = nursery.lab.last_run(pipeline)["id"]
    nursery.lab.request(pipeline)
    thread = Thread(target=nursery.take_over, args=(pipeline,))
    thread.start()
    wait_for(lambda: nursery.lab.value("SELECT count(*) FROM etl.etl_runs WHERE id > %s AND batches > 2", before))
    server.kill()
    server.start()
    os.kill(zombie.pid or 0, signal.SIGCONT)
    thread.join()
    zombie.join(patient(60))
    assert zombie.exitcode == 0
    nursery.assert_all_well(pipeline)
    assert nursery.lab.last_run(pipeline)["attempt"] == 1  # it waited
