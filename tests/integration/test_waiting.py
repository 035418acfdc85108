"""A mart that cannot go live yet: it waits for the transactions that were open when it began, without a slot."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.elastic import open_search
from tests.integration.test_live import AGGREGATE
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.pipelines import PipelineRepo

RATE = """INSERT INTO ugc.ratings (id, user_id, film_id, rating)
    SELECT gen_random_uuid(), gen_random_uuid(), id, 9 FROM content.film_work LIMIT {}"""
FILMS = "SELECT id AS film_id, title FROM content.film_work"
ATTEMPTS = """SELECT a.status, a.attempt FROM etl.etl_run_attempts a JOIN etl.etl_runs r ON r.id = a.run_id
    WHERE r.pipeline_id = %s ORDER BY a.run_id, a.attempt"""


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal") as live:
        yield live


@contextmanager
def writing(lab: Lab, rows: int = 3, name: str = "a slow writer") -> Iterator[psycopg.Connection]:
    """Somebody who has written and has not committed."""
    with psycopg.connect(lab.conninfo, application_name=name) as writer:
        writer.execute(RATE.format(rows).encode())
        yield writer


def waits(lab: Lab, pipeline: Pipeline) -> bool:
    """Whether it has begun to, and holds no slot."""
    waiting = lab.value("SELECT count(*) FROM etl.etl_waits WHERE pipeline_id = %s", pipeline.id) == 1
    return waiting and lab.status(pipeline) == "RUN_REQUESTED"


def is_live(lab: Lab, pipeline: Pipeline) -> bool:
    return "live" in [event["event"] for event in lab.events(pipeline)] and lab.status(pipeline) == "FOLLOWING"


def barrier(lab: Lab) -> Any:
    return lab.value("SELECT barrier FROM etl.etl_waits")


def test_it_waits_without_a_slot_and_nothing_has_failed(live: Living) -> None:
    lab = live.lab
    lab.configure(slots=1, poll_seconds=0.2)
    pipeline = live.add(AGGREGATE)
    other = lab.add(name="other", source_query=FILMS, target_table="analytics.other", key=["film_id"])
    with writing(lab) as writer, lab.runner():
        lab.request(pipeline)
        wait_for(lambda: waits(lab, pipeline))
        lab.request(other)
        wait_for(lambda: lab.status(other) == "IDLE")
        assert lab.last_run(other)["status"] == "SUCCESS"
        assert lab.value("SELECT crashes FROM etl.etl_leases WHERE pipeline_id = %s", pipeline.id) == 0
        said = lab.last_run(pipeline)["said"]
        assert said.startswith(f"waits for a transaction that was open: session {writer.info.backend_pid} of")
        writer.commit()
        wait_for(lambda: is_live(lab, pipeline))
    assert lab.sql(ATTEMPTS, pipeline.id) == [("PAUSED", 1), ("SUCCESS", 2)]
    assert lab.value("SELECT count(*) FROM etl.etl_runs WHERE pipeline_id = %s", pipeline.id) == 1
    assert lab.value("SELECT count(*) FROM etl.etl_waits") == 0
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_whoever_came_later_is_not_waited_for(live: Living) -> None:
    lab = live.lab
    lab.configure(poll_seconds=0.2)
    pipeline = live.add(AGGREGATE)
    with writing(lab, 3) as writer, lab.runner():
        lab.request(pipeline)
        wait_for(lambda: waits(lab, pipeline))
        with writing(lab, 2, "a later writer") as later:
            writer.commit()
            wait_for(lambda: is_live(lab, pipeline))
            later.commit()
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_one_that_is_paused_rests_at_once_and_goes_on_with_the_same_barrier(live: Living) -> None:
    lab = live.lab
    pipeline = live.add(AGGREGATE)
    with writing(lab) as writer:
        lab.run(pipeline)
        noted = barrier(lab)
        assert PipelineRepo(lab.db).request_pause(pipeline.id)
        assert lab.status(pipeline) == "PAUSED"
        lab.run(pipeline)
        assert (lab.status(pipeline), barrier(lab)) == ("RUN_REQUESTED", noted)
        with writing(lab, 2, "a later writer"):
            writer.commit()
            PipelineRepo(lab.db).request_pause(pipeline.id)
            assert lab.run(pipeline)["status"] == "SUCCESS"
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_once_its_tables_are_captured_anew_the_barrier_is_another(live: Living) -> None:
    """Whoever wrote in between may not have been captured, and is younger than the old barrier."""
    lab, publication = live.lab, live.captured.capture.publication
    pipeline = live.add(AGGREGATE)
    with writing(lab) as writer:
        lab.run(pipeline)
        noted = barrier(lab)
        with writing(lab, 2, "an unseen writer"):
            with lab.db.transaction():
                lab.sql(f"ALTER PUBLICATION {publication} DROP TABLE ugc.ratings")
                lab.sql(f"ALTER PUBLICATION {publication} ADD TABLE ugc.ratings")
            writer.commit()
            PipelineRepo(lab.db).request_pause(pipeline.id)
            lab.run(pipeline)
            assert (lab.status(pipeline), barrier(lab) != noted) == ("RUN_REQUESTED", True)
            assert "an unseen writer" in lab.last_run(pipeline)["said"]
    PipelineRepo(lab.db).request_pause(pipeline.id)
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_an_index_waits_in_the_same_way(lab: Lab, elastic: str, index_prefix: str) -> None:
    with living(lab, "wal") as live, open_search(lab, elastic, index_prefix) as search:
        pipeline = live.add(AGGREGATE, target_table=f"es:{index_prefix}films")
        with writing(lab) as writer:
            lab.run(pipeline)
            assert waits(lab, pipeline)
            writer.commit()
            PipelineRepo(lab.db).request_pause(pipeline.id)
            assert lab.run(pipeline)["status"] == "SUCCESS"
        live.follow(pipeline)
        query = f"SELECT count(*) FROM ({pipeline.source_query}) AS q"
        assert len(search.documents()) == lab.value(query)


def test_a_session_whose_role_is_gone_is_waited_for_too(live: Living) -> None:
    lab = live.lab
    pipeline = live.add(AGGREGATE)
    role = f"gone_{uuid4().hex[:8]}"
    lab.sql(f"CREATE ROLE {role} LOGIN SUPERUSER")
    with psycopg.connect(lab.conninfo, user=role, application_name="a slow writer") as writer:
        writer.execute(RATE.format(3).encode())
        lab.sql(f"DROP ROLE {role}")
        lab.run(pipeline)
        assert waits(lab, pipeline)
        assert f"session {writer.info.backend_pid} (a slow writer)" in lab.last_run(pipeline)["said"]
        writer.commit()
    PipelineRepo(lab.db).request_pause(pipeline.id)
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_should_nobody_look_it_is_claimed_again_after_a_while(live: Living) -> None:
    lab = live.lab
    pipeline = live.add(AGGREGATE)
    with writing(lab):
        lab.run(pipeline)
    ahead = "SELECT due_at BETWEEN now() + interval '30 s' AND now() + interval '60 s' FROM etl.etl_pipelines"
    assert lab.value(ahead)


def test_the_holder_is_looked_at_again_while_it_waits(live: Living) -> None:
    lab = live.lab
    lab.configure(poll_seconds=0.2)
    pipeline = live.add(AGGREGATE)
    holder = "SELECT holder ->> 'application_name' FROM etl.etl_waits"
    with writing(lab, 3, "the first") as first, writing(lab, 2, "the second"), lab.runner():
        lab.request(pipeline)
        wait_for(lambda: waits(lab, pipeline))
        assert lab.value(holder) == "the first"
        first.commit()
        wait_for(lambda: lab.value(holder) == "the second")
        assert lab.sql(ATTEMPTS, pipeline.id) == [("PAUSED", 1)]
