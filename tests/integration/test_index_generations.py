"""Which index is written and served: numbered, behind an alias, rebuilt beside the old one, never somebody else's."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from tests.elastic import BOTH, Search
from tests.sinks import assert_tidy, pause_at_batch
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.repos.indexes import IndexRepo
from vitrina.sinks.search.store import SearchStore
from vitrina.stores import Batch, Superseded

engines = BOTH

GENRES = """
    SELECT f.id AS film_id, f.title, array_agg(g.name ORDER BY g.name) AS genres
    FROM content.film_work f JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    JOIN content.genre g ON g.id = fg.genre_id GROUP BY f.id"""
TITLE_AS_KEYWORD = """UPDATE etl.etl_pipelines SET mapping = '{"title": {"type": "keyword"}}'"""


def went(search: Search, pipeline: Pipeline, **options: bool) -> dict[str, Any]:
    """A run that ends well, with index and query equal."""
    run = search.lab.run(pipeline, **options)
    assert (run["error"], run["status"]) == (None, "SUCCESS")
    assert search.documents() == search.wanted(pipeline)
    assert_tidy(search.lab)
    return run


def reasons(search: Search, pipeline: Pipeline) -> list[str]:
    """Why there was a new index, each time."""
    return [event["fields"]["why"] for event in search.lab.events(pipeline) if event["event"] == "index_begun"]


# ── only what changed is sent ────────────────────────────────────────────────────────────────────────────────────


def test_a_rename_of_one_genre_sends_the_films_that_have_it_and_nothing_else(search: Search) -> None:
    lab = search.lab
    lab.sql("DELETE FROM content.genre_film_work")
    lab.sql("""
        INSERT INTO content.genre_film_work (id, film_work_id, genre_id) SELECT gen_random_uuid(), f.id, g.id
        FROM (SELECT id, row_number() OVER () AS n FROM content.film_work) f
        JOIN (SELECT id, row_number() OVER (ORDER BY id::text) AS n FROM content.genre) g ON g.n = 1 + f.n % 2""")
    pipeline = search.add(source_query=GENRES, batch_size=7)
    went(search, pipeline)
    assert search.sent() == 60
    lab.sql("UPDATE content.genre SET name = 'Renamed' WHERE id = (SELECT min(id::text)::uuid FROM content.genre)")
    run = went(search, pipeline)
    assert (run["rows_written"], search.sent()) == (30, 90)
    run = went(search, pipeline)
    assert (run["rows_written"], run["rows_unchanged"], search.sent()) == (0, 60, 90)


# ── a strict mapping ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.scenario(42)
def test_a_new_field_is_named_and_the_mapping_does_not_grow(search: Search) -> None:
    pipeline = search.add(source_query=None, source_table="content.film_work", key=["id"])
    assert search.lab.run(pipeline)["error"] is None
    before = search.indexes()
    search.lab.sql("ALTER TABLE content.film_work ADD COLUMN unknown int DEFAULT 1")
    run = search.lab.run(pipeline)
    assert (run["status"], search.lab.status(pipeline)) == ("FAILED", "FAILED")
    assert "unknown" in run["said"]
    assert "rebuild" in run["said"]
    answer = search.http.post(f"/{search.name()}/_doc/x", json={"unknown": 1})  # and nobody else gets it in
    assert "strict_dynamic_mapping_exception" in answer.text
    assert search.indexes() == before


def test_another_mapping_makes_another_index_and_the_old_one_goes_after_its_grace(search: Search) -> None:
    pipeline = search.add(mode="incremental", incremental_key="modified", incremental_id_key="film_id")
    went(search, pipeline)
    search.lab.sql(TITLE_AS_KEYWORD)
    run = went(search, pipeline)
    assert (run["rows_written"], search.serves()) == (60, ["films-000002"])
    assert len(search.indexes()) == 2
    assert went(search, pipeline)["rows_written"] == 0
    search.lab.configure(es_grace_seconds=0)
    went(search, pipeline)
    assert list(search.indexes()) == [search.name("films-000002")]
    assert search.lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_shadow'") == [
        (f"d_{pipeline.id.hex}_2",)
    ]


def test_settings_while_loading_are_put_back_for_serving(search: Search) -> None:
    went(search, search.add())
    [index] = search.indexes().values()
    settings = index["settings"]["index"]
    assert (settings.get("refresh_interval"), settings["auto_expand_replicas"]) == (None, "0-1")
    assert settings["gc_deletes"] == "1h"


# ── somebody else's ──────────────────────────────────────────────────────────────────────────────────────────────


def make_foreign(search: Search, *, alias: bool) -> str:
    """An index of somebody else under our name, or behind an alias of our name."""
    name = search.name("theirs" if alias else "films")
    search.http.put(f"/{name}/_doc/1?refresh=true", json={"mine": 1}).raise_for_status()
    if alias:
        search.http.put(f"/{name}/_alias/{search.name()}").raise_for_status()
    return name


@pytest.mark.parametrize("alias", [False, True])
def test_what_somebody_else_made_is_refused_and_taken_over_with_adopt(search: Search, alias: bool) -> None:
    theirs = make_foreign(search, alias=alias)
    pipeline = search.add()
    error = search.lab.run(pipeline)["said"]
    assert "that this pipeline did not make — choose another name, or set adopt: true" in error
    assert search.documents() == {"1": {"mine": 1}}
    search.lab.sql("UPDATE etl.etl_pipelines SET adopt = true")
    with watching(search, [{"1"}]) as seen:
        went(search, pipeline)
    seen.check()
    assert search.serves() == ["films-000001"]
    assert (theirs in search.get("/_all")) == alias  # an index of our very name has to go; another one stays


def test_an_index_with_the_number_that_is_next_is_left_alone(search: Search) -> None:
    search.http.put(f"/{search.name('films-000001')}/_doc/1", json={"mine": 1}).raise_for_status()
    pipeline = search.add()
    went(search, pipeline)
    assert search.serves() == ["films-000002"]
    search.lab.configure(es_grace_seconds=0)
    went(search, pipeline)
    assert len(search.indexes()) == 2


def test_two_pipelines_never_share_an_index(search: Search) -> None:
    pipeline = search.add()
    went(search, pipeline)
    with pytest.raises(ConfigError):
        search.add("other", target_table=pipeline.target_table)
    search.lab.sql("DELETE FROM etl.etl_pipelines")  # by hand: its index stays
    other = search.add("other", target_table=pipeline.target_table)
    assert "that this pipeline did not make" in search.lab.run(other)["said"]


# ── changed by hand ──────────────────────────────────────────────────────────────────────────────────────────────


def delete(search: Search) -> str:
    search.http.delete(f"/{search.name('films-000001')}").raise_for_status()
    return "is gone"


def create_anew(search: Search) -> str:
    delete(search)
    search.http.put(f"/{search.name('films-000001')}/_doc/1", json={"mine": 1}).raise_for_status()
    search.http.put(f"/{search.name('films-000001')}/_alias/{search.name()}").raise_for_status()
    return "was created anew by somebody else"


def drop_alias(search: Search) -> str:
    search.http.delete(f"/{search.name('films-000001')}/_alias/{search.name()}").raise_for_status()
    return "no longer points to"


@pytest.mark.scenario(63)
@pytest.mark.parametrize("harm", [delete, create_anew, drop_alias])
@pytest.mark.parametrize("mode", [{}, {"mode": "incremental", "incremental_key": "modified"}], ids=["full", "cursor"])
def test_what_was_done_to_the_index_is_noticed_and_it_is_built_anew(search: Search, harm: Any, mode: Any) -> None:
    pipeline = search.add(**mode)
    went(search, pipeline)
    why = harm(search)
    run = went(search, pipeline)
    assert (run["rows_written"], search.serves()) == (60, ["films-000002"])
    assert why in reasons(search, pipeline)[-1]
    search.lab.configure(es_grace_seconds=0)
    went(search, pipeline)
    assert len(search.indexes()) == (2 if harm is create_anew else 1)  # theirs is theirs


def test_an_alias_that_was_pointed_to_something_else_is_refused(search: Search) -> None:
    pipeline = search.add()
    went(search, pipeline)
    drop_alias(search)
    make_foreign(search, alias=True)
    assert "is an alias of" in search.lab.run(pipeline)["said"]


@pytest.mark.scenario(63)
def test_a_version_that_was_raised_by_hand_is_noticed_and_repaired(search: Search) -> None:
    pipeline = search.add()
    went(search, pipeline)
    [id_, *_] = search.documents()
    raised = "version=9000000000000000000&version_type=external"
    search.http.put(f"/{search.name()}/_doc/{id_}?{raised}", json={"title": "mine"}).raise_for_status()
    search.lab.sql("UPDATE content.film_work SET title = 'other'")
    error = search.lab.run(pipeline)["said"]
    assert f"somebody else writes to {search.target()}: document '{id_}' has version 9000000000000000000" in error
    assert "run with --rebuild, or repair" in error
    went(search, pipeline, repair=True)


def test_an_index_that_vanishes_in_the_middle_fails_the_run_and_the_next_one_builds_it_anew(search: Search) -> None:
    pipeline = search.add(batch_size=5)
    pause_at_batch(search.lab, pipeline, 2)
    search.lab.run(pipeline)
    search.lab.sql("DROP TRIGGER at_batch ON etl.etl_runs")
    delete(search)
    went(search, pipeline)
    assert "it was never created" not in reasons(search, pipeline)


def test_a_stranger_in_an_index_that_is_built_keeps_it_from_being_served(search: Search) -> None:
    pipeline = search.add(batch_size=5)
    pause_at_batch(search.lab, pipeline, 2)
    assert search.lab.run(pipeline)["status"] == "PAUSED"
    search.lab.sql("DROP TRIGGER at_batch ON etl.etl_runs")
    search.http.put(f"/{search.name('films-000001')}/_doc/stranger", json={"title": "mine"}).raise_for_status()
    error = search.lab.run(pipeline)["said"]
    assert "has 61 documents instead of 60" in error
    assert search.http.get(f"/{search.name()}").status_code == 404
    went(search, pipeline)
    assert search.serves() == ["films-000002"]


def test_who_was_taken_over_cannot_move_the_target_back(search: Search) -> None:
    pipeline = search.add()
    went(search, pipeline)
    [old] = IndexRepo(search.lab.db, pipeline.id).all()
    epoch = search.lab.value("SELECT epoch FROM etl.etl_state")
    went(search, pipeline, rebuild=True)
    elastic = search.client()
    zombie = SearchStore(elastic, pipeline.id, search.target())
    with pytest.raises(Superseded, match="is gone"):
        zombie.serve(old.index, epoch)
    assert search.serves() == ["films-000002"]
    elastic.close()


def test_who_was_taken_over_finds_no_alias_to_write_through_and_makes_no_index(search: Search) -> None:
    pipeline = search.add()
    went(search, pipeline)
    epoch = search.lab.value("SELECT epoch FROM etl.etl_state")
    went(search, pipeline)
    with closing(search.client()) as elastic:
        alias = SearchStore(elastic, pipeline.id, search.target()).write_alias(epoch)
        elastic.bulk(alias, b'{"index": {"_id": "late"}}\n{"title": "too late"}\n')
        assert elastic.get(alias) == {}
    assert "late" not in search.documents()


def test_deletes_of_who_was_taken_over_find_no_alias_and_make_no_index_either(search: Search) -> None:
    pipeline = search.add()
    went(search, pipeline)
    [edition] = IndexRepo(search.lab.db, pipeline.id).all()
    epoch = search.lab.value("SELECT epoch FROM etl.etl_state")
    went(search, pipeline)
    before = search.documents()
    with closing(SearchStore(search.client(), pipeline.id, search.target())) as zombie:
        lines = "".join(f"{json.dumps(id_)}\n\n" for id_ in before).encode()
        with pytest.raises(Superseded, match="is gone"):
            zombie.write(edition.index, Batch(2**62, lines, len(before)), epoch)
        assert zombie.client.get(zombie.write_alias(epoch)) == {}
    assert search.documents() == before
    search.lab.sql("DELETE FROM content.film_work")
    went(search, pipeline, allow_deletes=True)
    assert search.documents() == {}


# ── nobody notices a rebuild ─────────────────────────────────────────────────────────────────────────────────────


GOING = (
    "no_shard_available_action_exception",
    '"reason":"all shards failed","phase":"query","grouped":true,"failed_shards":[]',
)


class Watcher(Thread):
    """Searches in a loop, and keeps every set of ids that it saw."""

    def __init__(self, search: Search, allowed: list[set[str]]) -> None:
        super().__init__()
        self.search, self.allowed = search, allowed
        self.seen: list[set[str]] = []
        self.errors: list[str] = []
        self.ended = Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.search.http.base_url, trust_env=False, verify=False, timeout=60) as http:
            while not self.ended.is_set():
                answer = http.post(f"/{self.search.name()}/_search", json={"size": 1000, "_source": False})
                if answer.status_code == 200:
                    self.seen.append({hit["_id"] for hit in answer.json()["hits"]["hits"]})
                else:
                    self.errors.append(answer.text)

    def check(self) -> None:
        """Only sets that were allowed, or the whole of what is there now; and it has seen something."""
        allowed = [*self.allowed, set(self.search.documents())]
        assert [ids for ids in self.seen if ids not in allowed] == []
        assert self.seen[-1] == allowed[-1]
        assert [error for error in self.errors if not self._is_excused(error)] == []

    def _is_excused(self, error: str) -> bool:
        """There was no index before; or a foreign index of the very name goes with the swap, under its searches."""
        return ("index_not_found_exception" in error and not self.allowed) or any(said in error for said in GOING)


@contextmanager
def watching(search: Search, allowed: list[set[str]]) -> Iterator[Watcher]:
    """While something is done; it sees the end of it."""
    watcher = Watcher(search, allowed)
    watcher.start()
    try:
        yield watcher
    finally:
        count = len(watcher.seen)
        while len(watcher.seen) < count + 2 and watcher.is_alive():
            watcher.ended.wait(0.01)
        watcher.ended.set()
        watcher.join()


def test_a_search_sees_all_of_the_old_index_or_all_of_the_new_one(search: Search) -> None:
    pipeline = search.add(batch_size=6)
    with watching(search, []) as first:
        went(search, pipeline)
    first.check()
    for number in range(2):
        before = set(search.documents())
        search.lab.sql(
            "DELETE FROM content.film_work WHERE id IN (SELECT id FROM content.film_work ORDER BY id LIMIT 9)"
        )
        with watching(search, [before]) as seen:
            went(search, pipeline, rebuild=True)
        seen.check()
        assert search.serves() == [f"films-{number + 2:06d}"]
