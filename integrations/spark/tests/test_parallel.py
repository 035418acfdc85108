"""A Postgres that Spark reads in parallel into the lake: one state of it, whatever is written meanwhile."""

from contextlib import closing
from threading import Event, Thread

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.spark import Cluster
from vitrina.domain.pipeline import Pipeline
from vitrina.sources.spark import parallel
from vitrina.testing.marts import failed, went

ACCOUNTS = 4_000
TYPED = """
SELECT id, balance, 'é ' || id AS name, CASE WHEN id % 3 = 0 THEN NULL ELSE id % 2 = 0 END AS flag,
       timestamptz '1492-10-12 00:00:00.000001+00' + id * interval '1 day' AS moment,
       date '0001-01-01' + id::int AS day, md5(id::text)::uuid AS code,
       timestamp '2026-01-01 00:00:00.5' + id * interval '1 second' AS naive,
       id / 3.0::float8 AS ratio, -0.0::float8 AS zero,
       ARRAY['a', NULL, 'b' || id] AS tags, 'a'::char(3) AS padded,
       (timestamptz '2026-01-01 12:00+00')::text AS shown,
       sha256(id::text::bytea) AS bytes, jsonb_build_object('id', id) AS doc
FROM content.account
"""


@pytest.fixture
def accounts(cluster: Cluster) -> Cluster:
    """A table of a key and a balance; and a source that the engine reads it from."""
    cluster.lab.sql("CREATE TABLE content.account (id bigint PRIMARY KEY, balance numeric(12, 2) NOT NULL)")
    cluster.lab.sql("INSERT INTO content.account SELECT n, 100 FROM generate_series(1, %s::int) n", ACCOUNTS)
    cluster.lab.sql("GRANT SELECT ON content.account TO vitrina_reader; ANALYZE content.account")
    where = "spark+postgresql://vitrina_reader@{host}:{port}/{dbname}?sslmode=disable"
    cluster.know("wide", where.format(**conninfo_to_dict(cluster.lake.postgres)))
    return cluster


def add(cluster: Cluster, select: str) -> Pipeline:
    config = {"name": "accounts", "source": "wide", "source_query": select, "key": ["id"]}
    return cluster.lab.add(**(config | {"target_table": cluster.lake.target}))


def test_every_value_arrives_as_postgres_has_it(accounts: Cluster) -> None:
    """The same mart as one that is written row by row, by way of the warehouse."""
    pipeline = add(accounts, TYPED)
    assert went(accounts.lake, pipeline) == (ACCOUNTS, 0)
    [local] = [accounts.lab.add(name="local", source_query=TYPED, key=["id"], target_table="lake:cinema.local")]
    went(accounts.lake, local)
    by_spark, by_us = "SELECT * FROM vitrina.cinema.mart", "SELECT * FROM vitrina.cinema.local"
    assert accounts.ask(f"(({by_spark}) EXCEPT ALL ({by_us})) UNION ALL (({by_us}) EXCEPT ALL ({by_spark}))") == []
    assert went(accounts.lake, pipeline) == (0, 0)


@pytest.mark.parametrize("shares", [True, False])
def test_all_sessions_see_one_state(accounts: Cluster, monkeypatch: pytest.MonkeyPatch, shares: bool) -> None:
    """Money moves all the time, and none is lost; it would seem so if each session saw a state of its own."""
    if not shares:
        monkeypatch.setattr(
            parallel, "SNAPSHOT", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SELECT '{}'"
        )
    pipeline, done = add(accounts, "SELECT id, balance FROM content.account"), Event()
    mover = Thread(target=move_money, args=(accounts, done))
    mover.start()
    try:
        went(accounts.lake, pipeline)
    finally:
        done.set()
        mover.join()
    [held] = accounts.ask("SELECT sum(balance) AS money FROM vitrina.cinema.mart")
    assert (held["money"] == f"{ACCOUNTS * 100}.00") is shares


def move_money(accounts: Cluster, done: Event) -> None:
    """From the first accounts to the last."""
    take = "UPDATE content.account SET balance = balance - 1 WHERE id <= 500"
    give = "UPDATE content.account SET balance = balance + 1 WHERE id > %s::int - 500"
    with closing(psycopg.connect(accounts.lab.conninfo, autocommit=True)) as conn:
        while not done.is_set():
            with conn.transaction():
                conn.execute(take)
                conn.execute(give, [ACCOUNTS])


def test_what_the_engine_cannot_read_exactly_is_refused(accounts: Cluster) -> None:
    assert "an operator with ?" in failed(
        accounts.lake, add(accounts, "SELECT id, to_jsonb(id) ? 'a' AS has FROM content.account")
    )
