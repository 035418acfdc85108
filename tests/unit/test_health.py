"""Health first: what a pipeline's page answers, from what is stored."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from vitrina.control.console.health import Health

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
ROW: dict[str, Any] = dict.fromkeys(
    ("wrong_since", "stale_since", "stuck_since", "waits_for", "next_at", "tries", "held_since", "due_at", "live")
) | {"mode": "full", "status": "IDLE", "enabled": True, "run_status": "SUCCESS", "fresh_at": NOW, "finished_at": NOW}
EQUAL: dict[str, Any] = {"equal": True, "missing": 0, "extra": 0, "different": 0}
DIFFERS: dict[str, Any] = {"equal": False, "missing": 1, "extra": 2, "different": 4}


def _run(minutes: int, **options: bool) -> dict[str, Any]:
    return {"status": "SUCCESS", "started_at": NOW + timedelta(minutes=minutes), "options": options}


def _of(
    row: dict[str, Any] | None = None, *runs: dict[str, Any], report: Any = None, **config: Any
) -> tuple[tuple[str, str], ...]:
    compared = {"result": report, "finished_at": NOW} if report else None
    health = Health.of(ROW | (row or {}), config, compared, runs)
    return tuple((a.level, a.code) for a in (health.equal, health.fresh, health.works))


@pytest.mark.parametrize(
    ("row", "runs", "report", "said"),
    [
        ({"fresh_at": None}, [], None, ("unknown", "not filled")),
        ({}, [_run(-5)], None, ("good", "made")),
        ({}, [_run(-5)], EQUAL, ("good", "compared")),
        ({}, [_run(-5)], DIFFERS, ("bad", "differs")),
        ({}, [_run(5)], DIFFERS, ("good", "made")),
        ({"mode": "incremental"}, [_run(5)], None, ("unknown", "never compared")),
        ({"mode": "incremental"}, [_run(5)], DIFFERS, ("bad", "differs")),  # it sees no deletes
        ({"mode": "incremental"}, [_run(5, repair=True)], DIFFERS, ("good", "made")),
        ({"wrong_since": NOW}, [_run(5)], EQUAL, ("bad", "was wrong")),
    ],
)
def test_whether_it_is_equal(row: dict[str, Any], runs: list[dict[str, Any]], report: Any, said: Any) -> None:
    assert _of(row, *runs, report=report)[0] == said


def test_whether_it_is_fresh() -> None:
    assert _of()[1] == ("unknown", "no limit")
    assert _of(freshness_limit="5m")[1] == ("good", "fresh")
    assert _of({"stale_since": NOW}, freshness_limit="5m")[1] == ("bad", "stale")
    assert _of({"fresh_at": None}, freshness_limit="5m")[1] == ("unknown", "not filled")


@pytest.mark.parametrize(
    ("row", "config", "said"),
    [
        ({"status": "FAILED"}, {}, ("bad", "failed")),
        ({"status": "RUN_REQUESTED", "waits_for": "es:", "next_at": NOW}, {}, ("bad", "waits")),
        ({"status": "RUN_REQUESTED", "next_at": NOW, "tries": 2}, {}, ("bad", "tries again")),
        ({"status": "RUN_REQUESTED"}, {}, ("busy", "due")),
        ({"status": "RUNNING", "held_since": NOW}, {}, ("busy", "held")),
        ({"status": "FOLLOWING", "mode": "live"}, {}, ("good", "follows")),
        ({"status": "FOLLOWING", "stuck_since": NOW}, {}, ("bad", "stands still")),
        ({"status": "PAUSED"}, {}, ("rest", "paused")),
        ({"enabled": False}, {}, ("rest", "disabled")),
        ({"due_at": NOW}, {"schedule_interval": "5m"}, ("good", "next")),
        ({}, {"schedule_interval": "5m"}, ("good", "soon")),
        ({}, {"after": "upstream"}, ("good", "after upstream")),
        ({"run_status": None}, {}, ("unknown", "on request")),
    ],
)
def test_whether_it_works_and_what_comes_next(row: dict[str, Any], config: dict[str, Any], said: Any) -> None:
    assert _of(row, **config)[2] == said
