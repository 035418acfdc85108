"""Programs and meta-stores of different versions: what is brought along, who works with whom, who refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contract.server import serve
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina import __version__
from vitrina.domain.errors import ConfigError
from vitrina.domain.pipeline import Pipeline
from vitrina.meta import compatibility, migrate
from vitrina.meta.compatibility import Schema, known, misfit, newest
from vitrina.meta.repos.sessions import SessionRepo
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.meta.roles import ensure_roles
from vitrina.runner.main import Runner

EARLIER = [migration.version for migration in known()][:-1]
FILMS = "SELECT id AS film_id, title, rating, modified FROM content.film_work"
CARDS = "SELECT film_id, count(*) AS votes, avg(rating) AS average FROM ugc.ratings GROUP BY film_id"
HELD = {"etl_pipelines", "etl_state", "etl_runs", "etl_run_events", "etl_requests", "etl_tokens", "etl_audit"}
WITHOUT_ATTEMPT = """
    SELECT r.id FROM etl.etl_runs r LEFT JOIN etl.etl_run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
    WHERE a.status IS DISTINCT FROM r.status OR a.error IS DISTINCT FROM r.error
"""
COLUMNS = """
    SELECT table_name, array_agg(column_name::text)
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_type = 'BASE TABLE' AND table_schema = 'etl'
      AND table_name LIKE 'etl\\_%%' AND table_name <> 'etl_schema_history' GROUP BY 1
"""


# ── what is brought along ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", EARLIER)
def test_a_meta_store_of_an_earlier_version_is_brought_here_with_all_that_is_in_it(lab: Lab, version: str) -> None:
    made = make_history(lab)
    rows = take_back(lab, version)
    with pytest.raises(ConfigError, match="run: vitrina migrate"):
        Runner(lab.connections).check()

    migrate.upgrade(lab.conninfo)
    ensure_roles(lab.db, ["content", "ugc"], ["analytics"])
    held = {table: found for table, found in rows.items() if found}
    assert held.keys() >= HELD
    after = rows_of(lab, {table: list(found[0]) for table, found in held.items()})
    assert {table: in_order(found) for table, found in after.items()} == {t: in_order(f) for t, f in held.items()}
    assert lab.sql(WITHOUT_ATTEMPT) == []
    assert_works(lab, made)


def test_a_session_of_a_token_outlives_that_there_are_others(lab: Lab) -> None:
    token = TokenRepo(lab.db).create("ann", "operator")
    session, link = SessionRepo(lab.db).open(token), SessionRepo(lab.db).link(token)
    assert session
    take_back(lab, "0028")
    migrate.upgrade(lab.conninfo)
    assert SessionRepo(lab.db).find(session[0]) == {"name": "ann", "role": "operator"}
    assert SessionRepo(lab.db).exchange(link)


@pytest.mark.parametrize("version", [version for version in EARLIER if version >= "0003"])
def test_a_live_mart_goes_on_where_it_was(lab: Lab, version: str) -> None:
    with living(lab, "trigger") as live:
        mart = live.add(CARDS, name="cards", target_table="analytics.cards")
        live.follow(mart)
    if version < "0022":
        lab.sql("UPDATE etl.etl_pipelines SET status = 'IDLE'")  # older programs know no other
    take_back(lab, version)
    migrate.upgrade(lab.conninfo)
    ensure_roles(lab.db, ["content", "ugc"], ["analytics"])
    assert lab.sql("SELECT next_at IS NOT NULL FROM etl.etl_mart_audits") == [(True,)]
    live.captured.start()
    try:
        assert_follows(live, mart)
    finally:
        live.captured.stop()


BECOMES = {
    "IDLE": "FOLLOWING",
    "RUN_REQUESTED": "FOLLOWING",
    "RUNNING": "FOLLOWING",
    "PAUSE_REQUESTED": "PAUSED",
    "PAUSED": "PAUSED",
    "FAILED": "FAILED",
}


@pytest.mark.parametrize("version", ["0019", "0022", EARLIER[-1]])
def test_marts_of_before_go_on_and_live_ones_are_followed_from_where_they_were_whatever_their_status(
    lab: Lab, version: str
) -> None:
    """Among them one whose run waits for somebody, and one that is followed, where programs of then knew of that."""
    becomes = BECOMES | ({"FOLLOWING": "FOLLOWING"} if version >= "0022" else {})
    with living(lab, "trigger") as live:
        marts = {name: live.add(CARDS, name=name, target_table=f"analytics.{name.lower()}") for name in becomes}
        live.follow(*marts.values())
        whole = {name: lab.add(name=f"whole {name}", source_query=CARDS, key=["film_id"],
                               target_table=f"analytics.whole_{name.lower()}") for name in BECOMES}  # fmt: skip
        lab.sql("UPDATE etl.etl_pipelines SET status = 'IDLE'")
        take_back(lab, version)
        lab.sql("SET session_replication_role = replica")
        for status, mart in (*marts.items(), *whole.items()):
            lab.sql("UPDATE etl.etl_pipelines SET status = %s WHERE id = %s", status, mart.id)
        lab.sql("UPDATE etl.etl_pipelines SET due_at = now() WHERE status = 'RUN_REQUESTED'")
        lab.sql("""
            UPDATE etl.etl_leases l SET owner = gen_random_uuid(), runner = 'lost', expires_at = now()
            FROM etl.etl_pipelines p
            WHERE p.id = l.pipeline_id AND p.status IN ('RUNNING', 'PAUSE_REQUESTED', 'FOLLOWING')""")
        if version >= "0022":
            lab.sql("INSERT INTO etl.etl_runs (pipeline_id, config_version, runner, waiting_since)"
                    " VALUES (%s, 1, 'lost', now())", whole["RUN_REQUESTED"].id)  # fmt: skip
        lab.sql("RESET session_replication_role")
        migrate.upgrade(lab.conninfo)
        ensure_roles(lab.db, ["content", "ugc"], ["analytics"])
        with lab.runner():
            wait_for(lambda: {status: lab.status(mart) for status, mart in marts.items()} == becomes, 30)
            rests = {status: became.replace("FOLLOWING", "IDLE") for status, became in BECOMES.items()}
            wait_for(lambda: {status: lab.status(mart) for status, mart in whole.items()} == rests, 30)
        gone_on = lab.sql("SELECT status, attempt FROM etl.etl_runs WHERE pipeline_id = %s", whole["RUN_REQUESTED"].id)
        assert gone_on == [("SUCCESS", 2 if version >= "0022" else 1)]
        assert_follows(live, marts["IDLE"])


def assert_follows(live: Living, mart: Pipeline) -> None:
    live.lab.sql("UPDATE ugc.ratings SET rating = 1 WHERE id = (SELECT id FROM ugc.ratings WHERE rating > 3 LIMIT 1)")
    assert live.follow(mart)["rows_written"] == 1
    assert "comparing" not in live.events(mart)
    live.assert_equal(mart)


def make_history(lab: Lab) -> dict[str, Pipeline]:
    """What real runs, requests and people leave behind."""
    keys: dict[str, Any] = {"key": ["film_id"], "source_query": FILMS}
    cursor = {"mode": "incremental", "incremental_key": "modified", "incremental_id_key": "film_id"}
    made = {
        "whole": lab.add(name="whole", target_table="analytics.whole", **keys),
        "cursor": lab.add(name="cursor", target_table="analytics.cursor", **cursor, **keys),
        "broken": lab.add(name="broken", target_table="analytics.broken", source_query="SELECT 1/0 AS id", key=["id"]),
        "resting": lab.add(name="resting", target_table="analytics.resting", schedule_interval="1h", **keys),
    }
    for name in ("whole", "cursor", "broken"):
        lab.run(made[name])
    lab.sql("UPDATE etl.etl_pipelines SET status = 'PAUSED' WHERE name = 'resting'")
    lab.reconcile(made["whole"])
    lab.sql("INSERT INTO etl.etl_audit (actor, action, details) VALUES ('ann', 'created', '{\"name\": \"whole\"}')")
    TokenRepo(lab.db).keep("ann", "a token of ann's, which is long enough", "operator")
    return made


def take_back(lab: Lab, version: str) -> dict[str, list[dict[str, Any]]]:
    """Rebuild the meta-store as it was at a version, with what it could hold of the present rows; these."""
    present = rows_of(lab, columns_of(lab))
    lab.sql("DROP SCHEMA etl CASCADE")
    migrate.upgrade(lab.conninfo, version)
    columns = columns_of(lab)
    lab.sql("SET session_replication_role = replica")
    kept = {table: [pick(row, columns[table]) for row in present.get(table, ())] for table in columns}
    for table, rows in kept.items():
        lab.sql(f"DELETE FROM etl.{table}")
        if rows:
            names = ", ".join(rows[0])
            lab.sql(
                f"INSERT INTO etl.{table} ({names}) OVERRIDING SYSTEM VALUE"
                f" SELECT {names} FROM jsonb_populate_recordset(NULL::etl.{table}, %s)",
                json.dumps(rows),
            )
    lab.sql("RESET session_replication_role")
    for table in ("etl_runs", "etl_run_events", "etl_audit"):
        lab.sql(f"SELECT setval(pg_get_serial_sequence('etl.{table}', 'id'), 1000)")
    return kept


def pick(row: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in columns}


def columns_of(lab: Lab) -> dict[str, list[str]]:
    return dict(lab.sql(COLUMNS.replace("%%", "%")))


def rows_of(lab: Lab, columns: dict[str, list[str]]) -> dict[str, list[dict[str, Any]]]:
    """All rows of these tables, in these columns."""
    return {
        table: [row for (row,) in lab.sql(f"SELECT to_jsonb(q) FROM (SELECT {', '.join(names)} FROM etl.{table}) q")]
        for table, names in columns.items()
    }


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def assert_works(lab: Lab, made: dict[str, Pipeline]) -> None:
    """Runs go on from where they were, people come in as before, and the history is there."""
    lab.sql("UPDATE content.film_work SET title = title || '!', modified = now() WHERE id IN"
            " (SELECT id FROM content.film_work LIMIT 3)")  # fmt: skip
    assert lab.run(made["whole"])["rows_written"] == 3
    assert lab.run(made["cursor"])["rows_read"] == 3
    lab.assert_equal(made["whole"])
    lab.assert_equal(made["cursor"])
    assert [lab.status(made[name]) for name in ("broken", "resting")] == ["FAILED", "PAUSED"]
    assert TokenRepo(lab.db).find("a token of ann's, which is long enough") == {"name": "ann", "role": "operator"}


# ── who works with whom ──────────────────────────────────────────────────────────────────────────────────────


def migrated_by_a_newer(lab: Lab, compatible_with: str) -> None:
    """As a program of the future leaves it."""
    lab.sql("INSERT INTO etl.etl_schema_history VALUES ('9000', %s, '9.0.0')", compatible_with)
    lab.sql("UPDATE etl.alembic_version SET version_num = '9000'")


def test_an_older_program_works_on_a_newer_schema_that_is_compatible_with_it(lab: Lab) -> None:
    migrated_by_a_newer(lab, newest())
    pipeline = lab.add(source_query=FILMS, key=["film_id"])
    assert lab.run(pipeline)["status"] == "SUCCESS"
    migrate.upgrade(lab.conninfo)
    assert lab.value("SELECT version_num FROM etl.alembic_version") == "9000"


def test_an_older_program_refuses_a_schema_that_breaks_it_and_says_what_to_install(lab: Lab) -> None:
    migrated_by_a_newer(lab, "9000")
    for ask in (compatibility.require, migrate.upgrade):
        with pytest.raises(ConfigError, match=r"from 9000 on.+install Vitrina 9\.0\.0 or newer"):
            ask(lab.conninfo)
    with pytest.raises(ConfigError, match="install Vitrina"):
        Runner(lab.connections).check()


def test_the_api_says_its_version_and_is_not_ready_on_a_schema_that_breaks_it(lab: Lab) -> None:
    with serve(lab) as api:
        health = api.clients["nobody"].get("/health")
        assert (health.status_code, health.json()["version"]) == (200, __version__)
        migrated_by_a_newer(lab, "9000")
        unready = api.clients["nobody"].get("/readyz")
        assert (unready.status_code, unready.json()["checks"]) == (503, {"meta-store": "does not fit this program"})
        assert api.clients["nobody"].get("/livez").status_code == 200


def test_a_program_works_below_a_migration_that_it_does_not_need(tmp_path: Path, monkeypatch: Any) -> None:
    now, before = newest(), Schema(newest(), newest())
    shutil.copytree(compatibility.VERSIONS, tmp_path / "versions")
    monkeypatch.setattr(compatibility, "VERSIONS", tmp_path / "versions")
    (tmp_path / "versions" / "9000_faster.sql").write_text("-- compatible-with: 0007\n-- needed: no\nSELECT 1;\n")
    assert misfit(before) is None
    (tmp_path / "versions" / "9000_faster.sql").write_text("-- compatible-with: 0007\nSELECT 1;\n")
    assert f"is at {now}, and this program needs 9000" in str(misfit(before))


def test_every_migration_says_which_programs_it_leaves_working() -> None:
    silent = [
        file.name
        for file in sorted(compatibility.VERSIONS.glob("*.sql"))
        if file.stem >= compatibility.TOLD_SINCE and "-- compatible-with: " not in file.read_text().split("\n\n")[0]
    ]
    assert silent == [], "say in its first lines: -- compatible-with: NNNN (see vitrina/meta/compatibility.py)"
