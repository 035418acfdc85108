"""Indexes that another has replaced, and shadows of deleted pipelines, go by themselves; if not now, then later."""

from contextlib import closing

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from tests.elastic import Search
from tests.sinks import SqliteSink, assert_equal, went
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.settings import Settings
from vitrina.sinks.registry import tidy

SHADOWS = "SELECT count(*) FROM pg_class WHERE relnamespace = 'etl_shadow'::regnamespace AND relkind = 'r'"
STATES = "SELECT generation, state FROM etl.etl_indexes ORDER BY generation"
NOBODY = SecretStr("http://127.0.0.1:9")  # nobody listens there


def rebuilt(search: Search) -> Pipeline:
    """A pipeline whose second index has replaced its first, which is kept for an hour."""
    search.lab.configure(es_grace_seconds=3600)
    pipeline = search.add()
    search.lab.run(pipeline)
    assert search.lab.run(pipeline, rebuild=True)["status"] == "SUCCESS"
    assert search.lab.sql(STATES) == [(1, "retired"), (2, "live")]
    return pipeline


def settings(lab: Lab, **other: object) -> Settings:
    """Those of the lab, with others."""
    return lab.connections.settings.model_copy(update=other)


def test_a_replaced_index_is_kept_for_its_grace_and_then_removed_with_its_shadow(search: Search) -> None:
    pipeline, lab = rebuilt(search), search.lab
    tidy(lab.db, settings(lab))
    assert (len(search.indexes()), lab.value(SHADOWS)) == (2, 2)
    with capture_logs() as said:
        tidy(lab.db, settings(lab, es_grace_seconds=0))
    assert [line["event"] for line in said] == ["old index removed"]
    assert [*search.indexes()] == [search.name("films") + "-000002"]
    assert (lab.sql(STATES), lab.value(SHADOWS)) == ([(2, "live")], 1)
    assert search.documents() == search.wanted(pipeline)


def test_without_elasticsearch_it_is_kept_said_so_and_removed_the_next_time(search: Search) -> None:
    rebuilt(search)
    lab = search.lab
    with capture_logs() as said:
        tidy(lab.db, settings(lab, es_grace_seconds=0, elasticsearch_url=NOBODY))
    assert (said[-1]["event"], said[-1]["log_level"]) == ("old index kept", "warning")
    tidy(lab.db, settings(lab, es_grace_seconds=0, elasticsearch_url=None))
    assert (len(search.indexes()), len(lab.sql(STATES))) == (2, 2)
    tidy(lab.db, settings(lab, es_grace_seconds=0))
    assert (len(search.indexes()), len(lab.sql(STATES))) == (1, 1)


def test_an_index_that_somebody_has_removed_already_is_forgotten(search: Search) -> None:
    rebuilt(search)
    old = min(search.indexes())
    search.http.delete(f"/{old}").raise_for_status()
    tidy(search.lab.db, settings(search.lab, es_grace_seconds=0))
    assert search.lab.sql(STATES) == [(2, "live")]


def test_the_shadows_of_a_deleted_pipeline_go_and_those_of_others_stay(search: Search) -> None:
    lab, gone = search.lab, search.add("gone")
    kept = search.add("kept")
    lab.run(gone)
    lab.run(kept)
    assert lab.value(SHADOWS) == 2
    lab.sql("DELETE FROM etl.etl_pipelines WHERE id = %s", gone.id)
    tidy(lab.db, settings(lab, elasticsearch_url=None))
    assert lab.value(SHADOWS) == 1
    lab.run(kept)
    assert search.documents("kept") == search.wanted(kept)


def test_an_index_that_somebody_has_put_in_its_place_is_left_alone(search: Search) -> None:
    rebuilt(search)
    old = min(search.indexes())
    search.http.delete(f"/{old}").raise_for_status()
    search.http.put(f"/{old}").raise_for_status()
    tidy(search.lab.db, settings(search.lab, es_grace_seconds=0))
    assert old in search.indexes()
    assert (search.lab.sql(STATES), search.lab.value(SHADOWS)) == ([(2, "live")], 1)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_set_of_a_plug_in_goes_too_unless_somebody_has_put_another_in_its_place(
    sqlite: SqliteSink, is_replaced: bool
) -> None:
    lab, select = sqlite.lab, "SELECT id, title FROM content.film_work"
    lab.configure(es_grace_seconds=3600)
    pipeline = lab.add(source_query=select, key=["id"], target_table=sqlite.target)
    went(sqlite, pipeline)
    went(sqlite, pipeline, rebuild=True)
    if is_replaced:
        with closing(sqlite.db) as db, db:
            db.execute("UPDATE vitrina_sets SET owner = 'somebody', id = 'other' WHERE name = 'mart-000001'")
    tidy(lab.db, settings(lab, es_grace_seconds=0))
    with closing(sqlite.db) as db:
        kept = [name for (name,) in db.execute("SELECT name FROM vitrina_sets ORDER BY name")]
    assert kept == ["mart-000001", "mart-000002"][not is_replaced :]
    assert (lab.sql(STATES), lab.value(SHADOWS)) == ([(2, "live")], 1)
    assert_equal(sqlite, pipeline)
