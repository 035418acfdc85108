"""Backup and restore as docs/operations.md tells it: dumped at work, lost, restored, and equal in the end."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from tests.elastic import Search
from tests.living import living
from tests.support import QUICK, SERVER, Lab, drop, wait_for
from vitrina.bootstrap import Warehouse, set_up
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import connect
from vitrina.settings import Settings

FILMS = "SELECT id AS film_id, title, rating, modified FROM content.film_work"
VOTES = "SELECT film_id, count(*) AS votes, avg(rating) AS average FROM ugc.ratings GROUP BY film_id"
RATE = "UPDATE ugc.ratings SET rating = %s WHERE id IN (SELECT id FROM ugc.ratings ORDER BY id LIMIT 20)"
RETITLE = "UPDATE content.film_work SET title = title || %s, modified = now() WHERE rating > 7"


def program(name: str) -> str:
    """Of the server that the tests run on."""
    found = os.environ.get("VITRINA_TEST_PG_BIN")
    return EmbeddedPostgres(Path(), bin_dir=Path(found) if found else None).program(name)


def back_up(lab: Lab, file: Path) -> None:
    """While everything is at work."""
    subprocess.run([program("pg_dump"), "--format=custom", f"--file={file}", lab.conninfo], check=True)


@contextmanager
def restored(lab: Lab, file: Path) -> Iterator[None]:
    """The database is lost, and comes back from the dump; then `vitrina migrate`."""
    lab.db.close()
    drop(lab.conninfo)
    with psycopg.connect(os.environ[SERVER], autocommit=True) as conn:
        name = sql.Identifier(str(conninfo_to_dict(lab.conninfo)["dbname"]))
        conn.execute(sql.SQL("CREATE DATABASE {}").format(name))
    command = [program("pg_restore"), "--exit-on-error", "--single-transaction", f"--dbname={lab.conninfo}", str(file)]
    subprocess.run(command, check=True)
    set_up(Warehouse(lab.conninfo, lab.conninfo, None), Settings(**QUICK))
    with connect(lab.conninfo, "lab") as lab.db:
        yield


def test_marts_are_equal_after_a_restore_and_a_live_one_is_compared_by_itself(lab: Lab, tmp_path: Path) -> None:
    films = lab.add(name="films", target_table="analytics.films", source_query=FILMS, key=["film_id"])
    with living(lab, "wal") as live:
        votes = live.add(VOTES, name="votes", target_table="analytics.votes")
        live.follow(films, votes)
        lab.sql(RATE, 1)  # captured or not, and not followed yet
        back_up(lab, tmp_path / "dump")
        lab.sql(RATE, 2)
        live.follow(votes)
    with restored(lab, tmp_path / "dump"):
        history = lab.value("SELECT count(*) FROM etl.etl_runs")
        lab.sql(RETITLE, "!")
        lab.request(films)
        with lab.runner():
            wait_for(lambda: (lab.status(films), lab.status(votes)) == ("IDLE", "FOLLOWING") and has_followed(lab), 60)
        lab.assert_equal(films)
        lab.assert_equal(votes)
        assert "was dropped" in lab.value("SELECT generation_reason FROM etl.etl_captures")
        assert lab.value("SELECT count(*) FROM etl.etl_runs") > history >= 2


def has_followed(lab: Lab) -> bool:
    """The live mart is in the generation that the capture began after the restore."""
    return bool(
        lab.value(
            "SELECT c.generation > 1 AND (s.checkpoint #>> '{live,generation}')::int = c.generation"
            " FROM etl.etl_captures c, etl.etl_state s JOIN etl.etl_pipelines p ON p.id = s.pipeline_id"
            " WHERE p.name = 'votes'"
        )
    )


def test_an_index_that_is_ahead_of_a_restored_warehouse_is_repaired(search: Search, tmp_path: Path) -> None:
    lab, films = search.lab, search.add()
    lab.run(films)
    back_up(lab, tmp_path / "dump")
    lab.sql(RETITLE, " of later")
    lab.sql("DELETE FROM content.film_work WHERE rating < 5")
    lab.configure(max_delete_rows=10**6)
    lab.run(films)
    ahead = search.documents()
    with restored(lab, tmp_path / "dump"):
        lab.run(films)
        assert search.documents() == ahead  # what was sent after the dump is not known here
        assert lab.run(films, repair=True)["status"] == "SUCCESS"
        assert search.documents() == search.wanted(films)


@pytest.mark.parametrize("name", ["pg_dump", "pg_restore"])
def test_the_programs_are_of_the_servers_version(name: str) -> None:
    said = subprocess.run([program(name), "--version"], capture_output=True, text=True, check=True).stdout
    with psycopg.connect(os.environ[SERVER]) as conn:
        assert said.split()[2].split(".")[0] == str(conn.info.server_version // 10_000)
