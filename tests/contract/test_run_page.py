"""A run's page: its timeline covers all of it, however much it has said."""

import re
from itertools import pairwise

import httpx
import pytest

from tests.contract.server import Api
from tests.contract.test_console import sign_in
from vitrina.control.console.runs import SLOTS, WIDTH

RUN = """
    INSERT INTO etl.etl_runs (pipeline_id, status, config_version, runner, started_at, finished_at)
    SELECT id, 'SUCCESS', 1, 'here:1', timestamptz '2026-01-01', timestamptz '2026-01-01' + interval '1000 s'
    FROM etl.etl_pipelines RETURNING id
"""
COMPARED = """
    INSERT INTO etl.etl_run_events (run_id, level, event, at, fields)
    VALUES (%s, 'info', 'compared', timestamptz '2026-01-01' + interval '100 s', '{"ms": 100000}')
"""
BATCHES = """
    INSERT INTO etl.etl_run_events (run_id, level, event, at, fields)
    SELECT %s, 'info', 'batch', timestamptz '2026-01-01' + make_interval(secs => 100 + 900.0 * n / %s), '{"ms": 60}'
    FROM generate_series(1, %s) AS n
"""
BAR = re.compile(r'<rect x="([\d.]+)" y="(\d+)" width="([\d.]+)"')


def ran(api: Api, batches: int) -> int:
    """A run of 1000 s: a comparison of 100 s, then batches."""
    [(run_id,)] = api.lab.sql(RUN)
    api.lab.sql(COMPARED, run_id)
    api.lab.sql(BATCHES, run_id, batches, batches)
    return int(run_id)


def bars(page: httpx.Response, lane: int) -> list[tuple[float, float]]:
    """Where those of a lane begin and end."""
    found = [(float(x) - 170, float(width), int(y)) for x, y, width in BAR.findall(page.text)]
    return [(x, x + width) for x, width, y in found if y // 22 == lane]


@pytest.mark.parametrize(("batches", "said"), [(20, "21 steps"), (6_000, "6,001 steps")])
def test_the_timeline_covers_the_whole_run(api: Api, batches: int, said: str) -> None:
    api.create()
    run_id = ran(api, batches)
    with sign_in(api, "viewer") as browser:
        page = browser.get(f"/runs/{run_id}")
    assert said in page.text
    assert bars(page, 0) == [(0, WIDTH / 10)]
    found = bars(page, 1)
    assert len(found) == batches if batches <= SLOTS else len(found) <= SLOTS
    assert found[0][0] < WIDTH * (0.1 + 1 / min(batches, SLOTS))
    assert found[-1][1] == pytest.approx(WIDTH, abs=2)
    gaps = [later[0] - earlier[1] for earlier, later in pairwise(found)]
    assert max(gaps) < WIDTH / min(batches, SLOTS)
