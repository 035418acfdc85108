"""Marts as files of Parquet in a bucket, on two servers of S3: whole versions, whatever happens on either side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_files import before_the_switch
from tests.files import MANIFEST
from tests.s3 import BucketFiles, Front, Lost, Refusal, Rule, fronting, versity
from tests.support import Lab
from vitrina.cli.checking_files import check_files
from vitrina.runner.main import Runner
from vitrina.sinks.files import sink
from vitrina.sinks.files.bucket import Bucket
from vitrina.sinks.parquet.patience import Patience
from vitrina.testing import SinkConformance
from vitrina.testing.faults import Nursery, change, killed
from vitrina.testing.marts import assert_equal, failed, items, went

BRIEF = Patience(2, 2, 1)


@pytest.fixture(scope="session", params=["moto", "versitygw"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each of them."""
    if request.param == "moto":
        yield request.getfixturevalue("s3")
        return
    with versity() as url:
        yield url


@pytest.fixture
def files(lab: Any, server: str) -> BucketFiles:
    return BucketFiles(lab, Path("/nowhere"), endpoint=server)


@pytest.fixture
def front(files: BucketFiles) -> Iterator[Front]:
    """Between the lab and the server; a test sees the bucket past it."""
    with fronting(files.endpoint) as front:
        files.lab.configure(lake_endpoint=front.url)
        yield front


class TestBucket(SinkConformance):
    """As in a folder."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None  # below: that of the manifest
    test_an_older_epoch_changes_nothing: Any = None  # below: the zombie
    test_marts_are_equal_after_random_changes: Any = None  # long ones, of a folder: they do not ask where it is
    test_a_run_is_paused_in_the_middle_and_goes_on: Any = None
    test_a_rebuild_writes_everything_anew: Any = None
    test_a_key_of_several_columns_and_any_text: Any = None

    @pytest.fixture
    def mart(self, files: BucketFiles) -> BucketFiles:
        return files


def test_a_mart_that_has_not_changed_is_not_written(files: BucketFiles, front: Front) -> None:
    pipeline = items(files, 30)
    went(files, pipeline)
    assert front.writes
    front.seen.clear()
    assert went(files, pipeline) == (0, 0)
    assert (front.seen != [], front.writes) == (True, [])


@pytest.mark.parametrize("point", ["after send:1", "before swap:1", "after swap:1"])
def test_what_a_killed_runner_leaves_is_removed(files: BucketFiles, point: str) -> None:
    pipeline, nursery = items(files, 60, batch_size=10), Nursery(files.lab)
    went(files, pipeline)
    change(files.lab)
    nursery.kill_at(pipeline, killed(point))
    nursery.take_over(pipeline)
    assert_equal(files, pipeline)
    assert not files.unnamed
    assert went(files, pipeline) == (0, 0)


def unfenced(bucket: Bucket, path: str, data: bytes, tag: str | None) -> str:
    """As if nobody compared."""
    del tag
    bucket.put(path, data)
    found = bucket.get(path)
    assert found
    return found[1]


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_zombie_switches_no_manifest_and_would_without_if_match(
    files: BucketFiles, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    pipeline = items(files)
    went(files, pipeline)
    files.lab.sql("UPDATE content.item SET title = 'of a zombie' WHERE id = 1")
    if not is_fenced:
        monkeypatch.setattr(Bucket, "switch", unfenced)
    served = []

    def succeed() -> None:
        files.lab.sql("UPDATE content.item SET title = 'newest' WHERE id = 1")
        Nursery(files.lab).take_over(pipeline)
        assert_equal(files, pipeline)
        served.append(files.manifest)

    before_the_switch(monkeypatch, succeed)
    files.lab.run(pipeline)
    assert (files.manifest == served[0]) is is_fenced


def of_the_manifest(answer: Any) -> Rule:
    """A rule for what switches it."""
    return lambda request: answer() if request.method == "PUT" and request.path.endswith(MANIFEST) else None


def lose() -> Refusal:
    """No answer."""
    raise Lost


@pytest.mark.parametrize(
    "rule",
    [
        lambda request: (503, "SlowDown") if request.method in ("PUT", "POST") else None,
        lambda request: (500, "InternalError") if request.method in ("PUT", "POST") else None,
        lambda request: (503, "SlowDown") if request.method == "GET" else None,
        of_the_manifest(lambda: (503, "SlowDown")),
        of_the_manifest(lose),
    ],
    ids=["503", "500", "503 on reading", "503 of the manifest", "cut off at the manifest"],
)
def test_a_bucket_in_trouble_is_waited_for(
    files: BucketFiles, front: Front, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "LONG", BRIEF)
    pipeline = items(files)
    went(files, pipeline)
    before = files.manifest
    files.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
    front.rule = rule
    run = files.lab.run(pipeline)
    assert (files.lab.status(pipeline), run["status"]) == ("RUN_REQUESTED", "RUNNING")
    assert [*files.lab.connections.neighbours.outages] == ["s3:"]
    assert files.manifest == before
    front.rule = lambda request: None
    files.lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    Runner(files.lab.connections).run_once(pipeline.id)
    assert files.lab.last_run(pipeline)["status"] == "SUCCESS"
    assert_equal(files, pipeline)


def test_an_answer_to_the_switch_that_is_lost_is_known_by_what_is_there(files: BucketFiles, front: Front) -> None:
    """Applied, and not told: asked again, the store says that it is not as it was, and it is ours."""
    pipeline = items(files)
    went(files, pipeline)
    files.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
    left = [True]
    front.swallow = lambda request: (
        request.method == "PUT" and request.path.endswith(MANIFEST) and bool(left and left.pop())
    )
    assert went(files, pipeline) == (1, 0)
    assert (left, files.lab.last_run(pipeline)["attempt"]) == ([], 1)
    assert_equal(files, pipeline)


def test_a_put_that_is_refused_is_an_error_that_says_so_and_no_outage(files: BucketFiles, front: Front) -> None:
    front.rule = lambda request: (403, "AccessDenied") if request.method == "PUT" else None
    said = failed(files, items(files))
    assert "refuses it" in said
    assert "AccessDenied" in said
    assert not files.lab.connections.neighbours.outages
    assert files.manifest is None


@pytest.mark.parametrize("ignored", ["If-None-Match", "If-Match"])
def test_a_bucket_that_keeps_no_conditions_is_told_before_anything_is_served(lab: Lab, s3: str, ignored: str) -> None:
    """By moto alone, which looks at no signature: another server would notice that a header is gone."""
    files = BucketFiles(lab, Path("/nowhere"), endpoint=s3)
    pipeline = items(files)
    with fronting(s3) as front:
        front.ignores = (ignored.lower(),)
        lab.configure(lake_endpoint=front.url)
        assert f"is written over in spite of {ignored}" in failed(files, pipeline)
        assert files.manifest is None
    lab.configure(lake_endpoint=s3)
    went(files, pipeline)
    assert_equal(files, pipeline)
    assert len({path.split("/")[0] for path in files.paths()} - {MANIFEST}) == 1


def test_the_doctor_says_how_a_bucket_answers(files: BucketFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "SHORT", BRIEF)
    url = f"s3://{files.bucket}/marts/"
    files.lab.configure(allowed_files=[f"{url}*"])
    assert [check.level for check in check_files(files.lab.connections.settings)] == ["ok", "ok"]
    files.lab.configure(allowed_files=["s3://no-such-bucket/marts/*"])
    *_, found = check_files(files.lab.connections.settings)
    assert (found.level, "refuses it" in found.message) == ("fail", True)
