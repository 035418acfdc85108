"""One query in a table, an index and a lake: read once for all, and one that is away holds back nobody else."""

from pathlib import Path

import pytest

from tests.elastic import Search
from tests.integration.test_shared_reading import counted, read_for_all, reads
from tests.integration.test_targets import member
from tests.lake import LakeSink
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.runner.main import Runner

NOWHERE = "http://127.0.0.1:9"
engines = ("elasticsearch",)


@pytest.fixture
def targets(search: Search, tmp_path: Path) -> list[str]:
    LakeSink(search.lab, tmp_path / "lake")
    return ["analytics.one", search.target(), "lake:cinema.mart"]


def run(search: Search, targets: list[str], **options: bool) -> list[str]:
    lab = search.lab
    with lab.db.transaction():
        for target in targets:
            assert lab.request(member(lab, target), **options)
    Runner(lab.connections).run_once()
    return [lab.status(member(lab, target)) for target in targets]


def assert_equal(search: Search, targets: list[str]) -> None:
    for target in targets:
        report = search.lab.reconcile(member(search.lab, target))
        assert (report["equal"], report["query_rows"] > 0) == (True, True), (target, report)


def test_every_kind_takes_its_rows_from_one_reading(search: Search, targets: list[str]) -> None:
    lab = search.lab
    counted(lab, targets=targets, mapping={"title": {"type": "text"}})
    for change in ("UPDATE content.counted SET title = upper(title) WHERE title < 'M'", "DELETE FROM content.counted"
                   " WHERE title < 'D'"):  # fmt: skip
        before = reads(lab)
        assert run(search, targets) == ["IDLE"] * 3
        assert reads(lab) - before == 1
        assert_equal(search, targets)
        lab.sql(change)
    assert run(search, targets, rebuild=True) == ["IDLE"] * 3
    assert_equal(search, targets)


def test_one_that_is_away_holds_back_nobody_and_catches_up(search: Search, targets: list[str]) -> None:
    lab, where = search.lab, search.lab.connections.settings.elasticsearch_url
    assert where is not None
    counted(lab, targets=targets)
    run(search, targets)
    search.reach(NOWHERE)
    lab.sql("UPDATE content.counted SET title = upper(title)")
    assert run(search, targets) == ["IDLE", "RUN_REQUESTED", "IDLE"]
    assert_equal(search, [targets[0], targets[2]])
    assert lab.value("SELECT count(*) FROM etl.etl_readings") == 0  # nobody keeps it for one that is away
    search.reach(where.get_secret_value())
    lab.sql("UPDATE etl.etl_pipelines SET due_at = now() WHERE status = 'RUN_REQUESTED'")
    Runner(lab.connections).run_once(member(lab, targets[1]).id)
    assert read_for_all(lab, targets[1])[1:] == []  # alone
    assert_equal(search, targets)
    lab.sql("DELETE FROM content.counted WHERE title < 'D'")
    before = reads(lab)
    assert run(search, targets) == ["IDLE"] * 3  # and together again
    assert reads(lab) - before == 1
    assert_equal(search, targets)
    assert PipelineRepo(lab.db).get("films").status == "IDLE"
