"""What a query may use up is bounded by settings; what exceeds a limit names the setting and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support import Lab
from vitrina.cli.checking import temporary_files
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import RetryableError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta.db import connect, transaction, translated
from vitrina.sources.connections import Connections

# Sorts some 30 MB, with memory for none of it.
LARGE = """
    SELECT (a.n || '') AS film_id, row_number() OVER (ORDER BY md5(a.n::text)) AS place, repeat('x', 200) AS filler
    FROM generate_series(1, 100000) AS a (n)
"""
ENDLESS = """
    SELECT f.id AS film_id, (SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b
                             WHERE a + b < f.rating) AS work
    FROM content.film_work f
"""
NAMED = "VITRINA_TEMP_FILE_LIMIT"
FEW = {"temp_file_limit": "1MB", "find_work_mem": "64kB", "write_work_mem": "64kB"}
LIMIT = "SELECT current_setting('temp_file_limit') AS own"


@pytest.fixture
def large(lab: Lab) -> Pipeline:
    lab.configure(**FEW, backoff_seconds=())
    return lab.add(source_query=LARGE, key=["film_id"])


@contextmanager
def without_the_right(lab: Lab) -> Iterator[str]:
    """A role of this test's own, as at somebody else's server."""
    name = f"stranger_{lab.conninfo.split('dbname=')[1].split()[0]}"
    lab.sql(f"CREATE ROLE {name} LOGIN")
    try:
        yield make_conninfo(lab.conninfo, user=name)
    finally:
        lab.sql(f"DROP OWNED BY {name}")
        lab.sql(f"DROP ROLE {name}")


def test_a_run_that_fills_the_disk_fails_once_and_names_the_setting(lab: Lab, large: Pipeline) -> None:
    run = lab.run(large)
    assert (run["status"], run["attempt"], lab.status(large)) == ("FAILED", 1, "FAILED")
    assert NAMED in run["said"]
    lab.configure(temp_file_limit="1GB")
    assert lab.run(large)["status"] == "SUCCESS"


def test_a_preview_and_a_comparison_are_bounded_too(lab: Lab, large: Pipeline) -> None:
    assert NAMED in lab.answer("preview", large, limit=5)["said"]
    lab.sql("CREATE TABLE analytics.mart (film_id text PRIMARY KEY, place bigint, filler text)")
    lab.sql("GRANT ALL ON analytics.mart TO vitrina_runner; GRANT SELECT ON analytics.mart TO vitrina_reader")
    assert NAMED in lab.answer("reconcile", large)["said"]


def test_validation_is_bounded_too(lab: Lab, large: Pipeline) -> None:
    found = Validation(lab.connections, lambda _: None, lambda _: None).of(large)
    assert any(NAMED in f"{finding.message} {finding.remedy}" for finding in found), found


def limit_within(connections: Connections, conninfo: str) -> Any:
    """What holds in a transaction that reads."""
    with connect(conninfo, "t") as conn, transaction(conn, connections.reading, read_only=True):
        row: Any = conn.execute(LIMIT).fetchone()
        return row["own"]


@pytest.mark.parametrize("role", ["vitrina_reader", "vitrina_runner"])
def test_our_roles_may_bound_themselves_and_the_doctor_is_content(lab: Lab, role: str) -> None:
    conninfo = make_conninfo(lab.conninfo, user=role)
    assert limit_within(lab.connections, conninfo) == "20GB"
    with connect(conninfo, "t") as conn:
        assert temporary_files(conn, "reader", "20GB").level == "ok"


def test_a_role_that_may_not_works_all_the_same_and_the_doctor_says_what_to_do(lab: Lab) -> None:
    with without_the_right(lab) as conninfo:
        assert limit_within(lab.connections, conninfo) == "-1"
        with connect(conninfo, "t") as conn:
            check = temporary_files(conn, "source other", "20GB")
        assert (check.level, check.about) == ("warn", "temporary files, source other")
        assert 'GRANT SET ON PARAMETER temp_file_limit TO "stranger_' in check.remedy


def test_a_lower_limit_of_the_role_itself_holds(lab: Lab) -> None:
    with without_the_right(lab) as conninfo:
        name = psycopg.conninfo.conninfo_to_dict(conninfo)["user"]
        lab.sql(f"ALTER ROLE {name} SET temp_file_limit = '7MB'; GRANT SET ON PARAMETER temp_file_limit TO {name}")
        assert limit_within(lab.connections, conninfo) == "7MB"
        with connect(conninfo, "t") as conn:
            assert temporary_files(conn, "source other", "20GB").message == "at most 7MB a process"


@pytest.mark.parametrize("source", ["warehouse", "other"])
def test_a_statement_that_takes_too_long_names_its_setting(lab: Lab, source: str) -> None:
    lab.configure(statement_timeout_seconds=0.3, backoff_seconds=(0,))
    others = {"other": make_conninfo(lab.other_database(), user="vitrina_reader")}
    lab.connections = replace(lab.connections, sources=others)
    run = lab.run(lab.add(source_query=ENDLESS, key=["film_id"], source=source))
    assert run["status"] == "FAILED"
    assert "VITRINA_STATEMENT_TIMEOUT_SECONDS (0.3 s)" in run["said"]


def test_other_limits_of_the_server_are_not_mistaken_for_it(lab: Lab) -> None:
    raised = "DO $$ BEGIN RAISE 'all replication slots are in use' USING ERRCODE = '53400'; END $$"
    with connect(lab.conninfo, "t") as conn, pytest.raises(RetryableError) as caught, translated():
        conn.execute(raised)
    assert NAMED not in str(caught.value)
