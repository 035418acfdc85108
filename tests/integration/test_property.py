"""Random changes between runs: every mart ends equal. VITRINA_ROUNDS makes it longer."""

import os
import random
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support import Lab
from vitrina.demo.data import mutate_cinema
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.equality import count_differences
from vitrina.files import demo_pipelines
from vitrina.transforms.chain import load_transforms

ROUNDS = int(os.environ.get("VITRINA_ROUNDS", "4"))
BATCHES = (1, 2, 7, 50, 5_000)

ROLES = """
    SELECT pf.film_work_id, pf.person_id, string_agg(pf.role, ', ' ORDER BY pf.role) AS roles, min(p.full_name) AS name
    FROM content.person_film_work pf JOIN content.person p ON p.id = pf.person_id
    GROUP BY pf.film_work_id, pf.person_id"""
CARD = """
    SELECT f.id AS film_id, f.title, f.rating, f.modified,
           array_agg(DISTINCT g.name) FILTER (WHERE g.name IS NOT NULL) AS genres,
           jsonb_agg(jsonb_build_object('id', p.id, 'name', p.full_name, 'role', pf.role) ORDER BY p.id, pf.role)
               FILTER (WHERE p.id IS NOT NULL) AS people
    FROM content.film_work f
    LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    LEFT JOIN content.genre g ON g.id = fg.genre_id
    LEFT JOIN content.person_film_work pf ON pf.film_work_id = f.id
    LEFT JOIN content.person p ON p.id = pf.person_id
    GROUP BY f.id"""
RANKED = """
    SELECT rank() OVER (ORDER BY votes DESC, film_id) AS place, film_id, votes
    FROM (SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id) AS counted"""
LIKED = "SELECT user_id, film_id FROM ugc.likes"
PERSONS = "SELECT p.id AS person_id, p.full_name, p.modified FROM content.person p"
FOLLOWED = {"mode": "incremental", "incremental_key": "modified"}
MARTS: dict[str, dict[str, Any]] = {
    "roles": {"source_query": ROLES, "key": ["film_work_id", "person_id"]},
    "card": {"source_query": CARD, "key": ["film_id"]},
    "card_at_once": {"source_query": CARD, "key": ["film_id"], "publish": "atomic"},
    "ranked": {"source_query": RANKED, "key": ["place"]},
    "liked": {"source_query": LIKED, "key": ["film_id", "user_id"]},
    "remote_card": {"source_query": CARD, "key": ["film_id"], "source": "cinema"},
    "followed": {"source_query": PERSONS, "key": ["person_id"], **FOLLOWED},
    "remote_followed": {"source_query": PERSONS, "key": ["person_id"], "source": "cinema", **FOLLOWED},
}


def build(lab: Lab) -> list[Pipeline]:
    """The demo's marts and ours; the remote cinema is this one, by another way in."""
    lab.connections = replace(lab.connections, sources={"cinema": make_conninfo(lab.conninfo, user="vitrina_reader")})
    load_transforms([])
    made = [lab.add(**pipeline.model_dump()) for pipeline in demo_pipelines()]
    return made + [lab.add(name=name, target_table=f"analytics.{name}", **config) for name, config in MARTS.items()]


def check(lab: Lab, pipeline: Pipeline) -> None:
    """A run ends equal; an incremental one does, deletes aside."""
    run = lab.run(pipeline, allow_deletes=True)
    assert (pipeline.name, run["error"]) == (pipeline.name, None)
    plan = resolve(pipeline)
    if plan.mode == "incremental":
        lab.sql(f"DELETE FROM {plan.target} WHERE person_id NOT IN (SELECT id FROM content.person)")
    with lab.connections.read_warehouse() as reader:
        assert (pipeline.name, count_differences(reader, plan)) == (pipeline.name, 0)


def resize(lab: Lab, pipeline: Pipeline, size: int) -> None:
    lab.sql("UPDATE etl.etl_pipelines SET batch_size = %s WHERE id = %s", size, pipeline.id)


@pytest.mark.parametrize("seed", range(2))
def test_every_mart_is_equal_after_every_round(lab: Lab, seed: int) -> None:
    rng = random.Random(seed)
    pipelines = build(lab)
    for _ in range(ROUNDS // 2):
        for pipeline in rng.sample(pipelines, len(pipelines)):
            resize(lab, pipeline, rng.choice(BATCHES))
            check(lab, pipeline)
        mutate_cinema(lab.db, rng, rng.choice((1, 20, 100)))


def test_marts_are_equal_once_the_changes_that_came_during_their_runs_have_stopped(lab: Lab) -> None:
    rng = random.Random(7)
    pipelines = build(lab)
    with psycopg.connect(lab.conninfo, autocommit=True) as writer:
        for pipeline in pipelines:
            resize(lab, pipeline, 7)
            lab.run(pipeline)
            mutate_cinema(writer, rng, 10)
    for pipeline in pipelines:
        check(lab, pipeline)
        run = lab.run(pipeline)
        assert (pipeline.name, run["rows_written"], run["rows_deleted"]) == (pipeline.name, 0, 0)
