"""How late changes come to live marts is kept over time, at the cost of a statement now and then."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from threading import Event
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.contract.server import serve
from tests.contract.test_console import sign_in
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina.control.plane import ControlPlane
from vitrina.control.services.latency import POINTS, course
from vitrina.domain.errors import VitrinaError
from vitrina.domain.latency import BOUNDS, MOST_TALLIES, Latencies, Tally, quantile, step
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect
from vitrina.meta.repos.latency import LatencyRepo
from vitrina.meta.repos.pipelines import PipelineRepo
from vitrina.metrics.events import REGISTRY
from vitrina.runner.latency import LatencyDesk
from vitrina.runner.main import Runner

VOTES = "SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id"
ONE_LESS = "DELETE FROM ugc.ratings WHERE id = (SELECT id FROM ugc.ratings LIMIT 1)"
NOW = datetime(2026, 11, 18, 12, 30, 15, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal", ("ugc.ratings",)) as live:
        yield live


@pytest.fixture
def mart(live: Living) -> Pipeline:
    """A mart that follows."""
    mart = live.add(VOTES)
    live.follow(mart)
    return mart


def kept(lab: Lab) -> list[tuple[int, int]]:
    return lab.sql("SELECT sum(arrivals)::integer, (SELECT sum(b)::integer FROM unnest(buckets) b) FROM etl.etl_latency"
                   " WHERE arrivals > 0 GROUP BY buckets")  # fmt: skip


def observed(mart: Pipeline) -> float:
    labels = {"pipeline": mart.name, "target": str(mart.target_table)}
    return REGISTRY.get_sample_value("vitrina_live_latency_seconds_count", labels) or 0.0


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tally_knows_how_many_came_how_late() -> None:
    tally = Tally()
    for seconds in (0.01, 0.025, 0.03, 2.0, 1000.0):
        tally.count(seconds)
    assert (tally.arrivals, tally.ms_max, tally.ms_sum) == (5, 1_000_000, 1_002_065)
    assert {n: count for n, count in enumerate(tally.buckets) if count} == {0: 2, 1: 1, 6: 1, len(BOUNDS): 1}


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.0])
def test_a_quantile_is_in_the_bucket_of_the_true_one(share: float) -> None:
    late = [0.001 * n for n in range(1, 1001)]
    tally = Tally()
    for seconds in late:
        tally.count(seconds)
    found, true = quantile(tally.buckets, share, tally.ms_max), late[int(share * 1000) - 1] * 1000
    assert found is not None
    assert abs(found - true) <= 1
    assert quantile(Tally().buckets, share, 0.0) is None


def test_a_span_has_no_more_points_than_are_drawn() -> None:
    for minutes in (1, 60, POINTS, POINTS + 1, 10_080):
        each = step(timedelta(minutes=minutes), POINTS)
        assert each >= MINUTE
        assert timedelta(minutes=minutes) / each <= POINTS


def test_what_waits_to_be_written_is_summed_up_and_bounded() -> None:
    latencies, one = Latencies(), uuid4()
    latencies.count(one, NOW, 1)
    taken = latencies.take()
    latencies.count(one, NOW, 2)
    latencies.put_back(taken)
    assert [tally.arrivals for tally in latencies.take().values()] == [2]
    latencies.put_back({(one, NOW + n * MINUTE): Tally(1) for n in range(MOST_TALLIES + 5)})
    left = latencies.take()
    assert (len(left), min(minute for _, minute in left)) == (MOST_TALLIES, NOW + 5 * MINUTE)


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_slice_that_is_committed_is_counted_once(live: Living, mart: Pipeline) -> None:
    before = observed(mart)
    assert kept(live.lab) == [], "going live is no latency"
    for times in (1, 2):
        live.captured.run(ONE_LESS)
        live.follow(mart)
        assert sum(arrivals for arrivals, _ in kept(live.lab)) == times == observed(mart) - before
    assert all(arrivals == told for arrivals, told in kept(live.lab))
    [(late,)] = live.lab.sql("SELECT max(ms_max) FROM etl.etl_latency")
    assert late >= live.position(mart)["lag_ms"] - 0.1


def test_a_slice_that_was_not_committed_is_not_counted(live: Living, mart: Pipeline) -> None:
    live.captured.run(ONE_LESS)
    live.lab.sql(
        "CREATE FUNCTION content.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'no' USING ERRCODE = '23514'; END $$;"
        "CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON etl.etl_state DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW WHEN (old.seq <> new.seq AND old.checkpoint IS DISTINCT FROM new.checkpoint)"
        " EXECUTE FUNCTION content.refuse()"
    )
    live.catch_up()
    assert live.lab.run(mart)["status"] == "FAILED"
    assert kept(live.lab) == []
    live.lab.sql("DROP TRIGGER refuse ON etl.etl_state")
    live.follow(mart)
    assert [arrivals for arrivals, _ in kept(live.lab)] == [1]


def test_what_cannot_be_written_is_written_the_next_time(lab: Lab) -> None:
    desk, one = LatencyDesk(lab.connections, Event()), uuid4()
    lab.connections.latencies.count(one, NOW, 0.2)
    with connect(lab.connections.warehouse, "test") as conn:
        lab.sql("REVOKE INSERT ON etl.etl_latency FROM vitrina_runner")
        with pytest.raises(VitrinaError):
            desk.write(conn)
        lab.sql("GRANT INSERT ON etl.etl_latency TO vitrina_runner")
        lab.connections.latencies.count(one, NOW, 0.2)
        desk.write(conn)
    assert lab.sql("SELECT arrivals, ms_max FROM etl.etl_latency") == [(2, 200.0)]


def test_the_counts_of_two_processes_add_up(lab: Lab) -> None:
    ids = [uuid4() for _ in range(100)]
    with connect(lab.connections.warehouse, "test") as conn:
        for _ in range(2):
            latencies = Latencies()
            for one in ids:
                for seconds in (0.03, 0.3):
                    latencies.count(one, NOW, seconds)
            LatencyRepo(conn).add(latencies.take())
    assert lab.sql("SELECT count(*), min(arrivals), max(arrivals), min(ms_sum), max(ms_max) FROM etl.etl_latency") == [
        (100, 4, 4, 660.0, 300.0)
    ]
    assert lab.sql("SELECT DISTINCT buckets[2], buckets[5] FROM etl.etl_latency") == [(2, 2)]


def test_what_a_mart_lacks_is_kept_also_where_nobody_works_at_it(live: Living, mart: Pipeline) -> None:
    PipelineRepo(live.lab.db).request_pause(mart.id)
    live.captured.run("DELETE FROM ugc.ratings WHERE id IN (SELECT id FROM ugc.ratings LIMIT 7)")
    live.catch_up()
    with connect(live.lab.connections.warehouse, "test") as conn:
        for _ in range(2):
            LatencyDesk(live.lab.connections, Event()).write(conn)
    assert live.lab.value("SELECT max(backlog) FROM etl.etl_latency") >= 7


def test_a_runner_writes_it_down_while_it_works_and_when_it_ends(live: Living, mart: Pipeline) -> None:
    with live.lab.runner():
        live.captured.run(ONE_LESS)
        wait_for(lambda: kept(live.lab) != [], 30)
        live.captured.run(ONE_LESS)
        live.catch_up()
        wait_for(lambda: live.position(mart)["id"] >= live.tip.last_id - 1)
    assert sum(arrivals for arrivals, _ in kept(live.lab)) >= 2


def test_old_minutes_are_forgotten(lab: Lab) -> None:
    lab.sql(
        "INSERT INTO etl.etl_latency SELECT gen_random_uuid(), now() - interval '8 days' FROM generate_series(1, 5)"
    )
    lab.sql("INSERT INTO etl.etl_latency SELECT gen_random_uuid(), now() - interval '6 days'")
    with connect(lab.connections.warehouse, "tidying") as conn:
        Runner(lab.connections)._manager(conn).tidy()
    assert lab.value("SELECT count(*) FROM etl.etl_latency") == 1


# ── showing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_api_and_console_show_the_course(lab: Lab) -> None:
    made = lab.add(source_query=VOTES, key=["film_id"], mode="live")
    [(now,)] = lab.sql("SELECT clock_timestamp()")
    for ago, seconds in ((3, 0.04), (2, 0.4), (2, 4.0)):
        lab.connections.latencies.count(made.id, now - ago * MINUTE, seconds)
    LatencyRepo(lab.db).add(lab.connections.latencies.take())
    with serve(lab) as api:
        viewer = api.clients["viewer"]
        told = viewer.get(f"/api/v1/pipelines/{made.name}/latency").json()
        assert told["minutes"] == 1
        assert [(point["arrivals"], point["max_ms"]) for point in told["points"]] == [(1, 40.0), (2, 4000.0)]
        assert told["points"][0]["p50_ms"] <= told["points"][0]["max_ms"]
        assert viewer.get(f"/api/v1/pipelines/{made.name}/latency?minutes=1").json()["points"] == []
        assert viewer.get("/api/v1/pipelines/nobody/latency").status_code == 404
        with sign_in(api, "viewer") as console:
            assert 'data-chart="latency"' in console.get(f"/pipelines/{made.name}").text
            lab.sql("UPDATE etl.etl_pipelines SET mode = 'full'")
            page = console.get(f"/pipelines/{made.name}")
            assert (page.status_code, 'data-chart="latency"' in page.text) == (200, False)


def test_a_long_time_is_summed_up_to_few_points(lab: Lab) -> None:
    made = lab.add(source_query=VOTES, key=["film_id"], mode="live")
    lab.sql(
        "INSERT INTO etl.etl_latency SELECT %s, date_trunc('minute', now()) - n * interval '1 min', 1, 40, 40,"
        " ARRAY[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], n FROM generate_series(0, 2000) n",
        made.id,
    )
    plane = ControlPlane(make_conninfo(lab.conninfo, user="vitrina_api"), lab.connections)
    with plane.pool:
        found = course(plane, PipelineRepo(lab.db).get(made.id), timedelta(minutes=1000))
    assert (found.minutes, len(found.points) <= POINTS + 1) == (5, True)
    assert sum(point.tally.arrivals for point in found.points) in (999, 1000, 1001)
    assert max(point.backlog for point in found.points) in (999, 1000)


def test_the_runner_may_only_what_it_needs(lab: Lab) -> None:
    with psycopg.connect(make_conninfo(lab.conninfo, user="vitrina_api")) as conn:
        conn.execute("SELECT * FROM etl.etl_latency")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("DELETE FROM etl.etl_latency")
