"""A bucket that is away, too busy or silent is waited for; one that refuses is not."""

from collections.abc import Callable
from threading import Event

import pytest

from tests.s3 import SECRET, WRITES, BucketLake, Front, Lost, Refusal, Request, Rule
from vitrina.cli.checking_lake import check_lake
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.pipeline import Pipeline
from vitrina.runner.main import Runner
from vitrina.sinks.lake import sink
from vitrina.sinks.parquet.patience import Patience
from vitrina.sinks.registry import look_at_sinks, probe
from vitrina.testing.marts import assert_equal, failed, items, went

BRIEF = Patience(1, 1, 1)


def waits(lake: BucketLake, pipeline: Pipeline) -> None:
    """A run that does not end, but waits."""
    run = lake.lab.run(pipeline)
    assert (lake.lab.status(pipeline), run["status"]) == ("RUN_REQUESTED", "RUNNING")
    assert [*lake.lab.connections.neighbours.outages] == ["lake:"]


def go_on(lake: BucketLake, pipeline: Pipeline) -> None:
    """The run that waits, once it is due."""
    lake.lab.sql("UPDATE etl.etl_pipelines SET due_at = now()")
    Runner(lake.lab.connections).run_once(pipeline.id)
    run = lake.lab.last_run(pipeline)
    assert (run["error"], run["status"]) == (None, "SUCCESS")
    assert not lake.lab.connections.neighbours.outages
    assert_equal(lake, pipeline)


def writes(answer: Callable[[], Refusal | None]) -> Rule:
    """A rule for them alone."""
    return lambda request: answer() if request.method in WRITES else None


def reads(answer: Callable[[], Refusal | None]) -> Rule:
    """A rule for all others."""
    return lambda request: None if request.method in WRITES else answer()


def lose() -> Refusal:
    """No answer."""
    raise Lost


TROUBLES = {
    "503": writes(lambda: (503, "SlowDown")),
    "500": writes(lambda: (500, "InternalError")),
    "503 of a gateway": writes(lambda: (503, "Gateway")),
    "429": writes(lambda: (429, "TooManyRequests")),
    "cut off": writes(lose),
    "503 on reading": reads(lambda: (503, "SlowDown")),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_a_bucket_in_trouble_is_waited_for(
    lake: BucketLake, front: Front, trouble: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "LONG", BRIEF)
    pipeline = items(lake)
    went(lake, pipeline)
    lake.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1")
    front.rule = trouble
    waits(lake, pipeline)
    front.rule = lambda request: None
    go_on(lake, pipeline)


def test_what_a_bucket_answers_once_is_asked_again_at_once(lake: BucketLake, front: Front) -> None:
    answers: list[Refusal] = [(503, "SlowDown"), (500, "InternalError")]
    front.rule = writes(lambda: answers.pop() if answers else None)
    pipeline = items(lake)
    went(lake, pipeline)
    assert (answers, lake.lab.last_run(pipeline)["attempt"]) == ([], 1)
    assert_equal(lake, pipeline)


def test_a_bucket_that_says_nothing_is_waited_for(
    lake: BucketLake, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "LONG", BRIEF)
    pipeline, awake = items(lake), Event()

    def hang(request: Request) -> Refusal | None:
        return (503, "SlowDown") if request.method in WRITES and awake.wait(60) else None

    front.rule = hang
    waits(lake, pipeline)
    awake.set()
    front.rule = lambda request: None
    go_on(lake, pipeline)


def test_a_bucket_that_is_away_from_the_beginning_is_waited_for_and_asked(
    lake: BucketLake, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "LONG", BRIEF)
    monkeypatch.setattr(sink, "SHORT", BRIEF)
    pipeline, connections = items(lake), lake.lab.connections
    front.stop()
    waits(lake, pipeline)
    assert "cannot be read or written" in look_at_sinks(connections.settings, connections.neighbours)["lake"]["error"]
    with pytest.raises(RetryableError):
        probe("lake:", connections.settings, connections.neighbours)
    front.start()
    assert probe("lake:", connections.settings, connections.neighbours)
    assert look_at_sinks(connections.settings, connections.neighbours)["lake"]["version"]
    go_on(lake, pipeline)


LONG_TEXTS = """
    SELECT id, (SELECT string_agg(md5(id || ' ' || n), '') FROM generate_series(1, 800000) n) AS long
    FROM content.item"""


def test_a_large_file_that_breaks_off_amid_its_parts_is_sent_again(
    lake: BucketLake, front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "LONG", Patience(5, 20, 1))
    pipeline = items(lake, 1, source_query=LONG_TEXTS)
    front.rule = lambda request: (503, "SlowDown") if "partNumber=2" in request.path else None
    waits(lake, pipeline)
    assert not lake.catalogue.namespace_exists("cinema")
    front.rule = lambda request: None
    front.seen.clear()
    go_on(lake, pipeline)
    assert [request for request in front.writes if "partNumber=2" in request.path]
    assert not lake.unreferenced()


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (403, "SignatureDoesNotMatch"), (400, "ExpiredToken")]
)
def test_a_put_that_is_refused_is_an_error_that_says_so_and_no_outage(
    lake: BucketLake, front: Front, status: int, code: str
) -> None:
    front.rule = writes(lambda: (status, code))
    said = failed(lake, items(lake))
    assert "the lake refuses it" in said
    assert "PutObject" in said
    assert SECRET not in said
    assert not lake.lab.connections.neighbours.outages


def test_a_bucket_that_is_not_there_is_named_before_a_run_and_by_it(lake: BucketLake) -> None:
    lake.lab.configure(lake_url="s3://nobody-made-it/marts")
    said = failed(lake, items(lake))
    assert "nobody-made-it" in said
    assert "check that the bucket is there" in said
    with pytest.raises(ConfigError, match="nobody-made-it"):
        [*check_lake(lake.lab.connections.settings)]
