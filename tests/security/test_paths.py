"""Whoever may create in a schema of the search_path runs nothing as one of ours, on any way to the server."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.contract import test_access
from tests.contract.server import Api, running
from tests.contract.test_console import sign_in
from tests.living import living
from tests.pooling import pooled, pooling
from tests.security.decoys import SOURCES, plant
from tests.security.test_forgery import fill, ids, settled
from tests.support import SERVER, Lab, differences, wait_for
from vitrina.bootstrap import Warehouse, set_up
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import QUERIES, SEARCH_PATH, connect, prepare, queries
from vitrina.sql.tree import FIELD, FUNCTIONS, OPERATORS, TELLING

__all__ = ["settled"]
RECORD = re.compile(r"^(?=\d{4}-\d\d-\d\d )", re.MULTILINE)  # of the server's log
FILMS = "SELECT id, title, rating, type::varchar AS type, created FROM content.film_work"


@contextmanager
def with_decoys(template: str, *schemas: str) -> Iterator[Lab]:
    """A database where somebody has put a decoy for every call of ours into these schemas."""
    with Lab.open(template) as lab:
        role = f"mallory_{lab.db.info.dbname}"
        lab.sql("SET search_path = pg_catalog, pg_temp")  # of the test's own session
        lab.sql(f"CREATE ROLE {role} LOGIN")
        try:
            for schema in schemas:
                lab.sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
                assert plant(lab, f'"{schema}"', role) > 1000
            yield lab
        finally:
            lab.sql(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


@pytest.fixture(scope="module")
def planted() -> Iterator[Lab]:
    """A warehouse with decoys in `public` and in "$user" of ours."""
    with with_decoys("vitrina_template", "public", "vitrina_runner", "vitrina_reader") as lab:
        yield lab


CHECKS: list[dict[str, Any]] = [
    {"name": "filled", "not_null": ["id", "title"]},
    {"name": "known", "accepted_values": {"type": ["movie", "tv_show"]}, "effect": "warn"},
    {"name": "rated", "condition": "rating BETWEEN 0 AND 10", "effect": "warn"},
    {"name": "one", "unique": ["id"]},
    {"name": "some", "row_count": {"at_least": 1}},
    {"name": "none", "empty": "SELECT m.id FROM mart m WHERE m.title = ''"},
]
MODES: dict[str, dict[str, Any]] = {
    "full": {},
    "checked": {"checks": [check | {"effect": "warn"} for check in CHECKS]},
    "published checked": {"checks": CHECKS, "publish": "atomic"},
    "by text": {"key": ["type", "id"], "batch_size": 7},
    "atomic": {"publish": "atomic"},
    "incremental": {"mode": "incremental", "incremental_key": "created", "incremental_id_key": "id"},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_run_calls_nothing_that_others_put_in_its_way(planted: Lab, mode: str) -> None:
    name = mode.replace(" ", "_")
    config = {"name": mode, "target_table": f"analytics.{name}", "source_query": FILMS, "key": ["id"]} | MODES[mode]
    pipeline = planted.add(**config)
    assert planted.run(pipeline)["error"] is None
    planted.db.execute("UPDATE content.film_work SET title = title OPERATOR(pg_catalog.||) '!'::text")
    assert planted.run(pipeline)["error"] is None
    assert planted.answer("reconcile", pipeline)["error"] is None
    kept = planted.sql("SELECT name, outcome FROM etl.etl_checks WHERE pipeline_id = %s", pipeline.id)
    assert len(kept) == len(pipeline.checks)
    assert {outcome for _, outcome in kept} <= {"kept"}


def test_migrations_and_roles_call_nothing_that_others_put_in_their_way() -> None:
    superuser = str(conninfo_to_dict(os.environ[SERVER]).get("user", "postgres"))
    with with_decoys("template1", "public", superuser) as lab:
        report = set_up(Warehouse(lab.conninfo, lab.conninfo, None), lab.connections.settings)
        assert report.separated
        assert lab.value("SELECT count(*) FROM etl.etl_schema_history") > 0


def test_a_session_behind_a_pooler_is_pinned_by_its_role_or_refused(lab: Lab) -> None:
    with pooling(lab.conninfo) as port:
        for way in (lab.connections.warehouse, lab.connections.reader):
            with connect(pooled(port, way), "pooled") as conn:
                assert conn.execute("SHOW search_path").fetchone() == {"search_path": "pg_catalog, pg_temp"}
        with pytest.raises(ConfigError, match="passes no search_path on"):
            connect(pooled(port, lab.conninfo), "pooled")


def test_there_is_one_way_to_open_a_session() -> None:
    opening = [path.name for path in SOURCES.rglob("*.py") if "psycopg.connect(" in path.read_text()]
    assert opening == []


@pytest.mark.parametrize("schema", ["etl", "etl_stage", "etl_shadow", "etl_log"])
def test_functions_of_ours_find_names_in_the_catalogue(lab: Lab, schema: str) -> None:
    loose = """
        SELECT p.proname FROM pg_catalog.pg_proc p WHERE p.pronamespace = %s::regnamespace
        AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp']
    """
    # That one runs the user's SELECT, whose names are found where VITRINA_SEARCH_PATH says; its own have their schema.
    assert {name for (name,) in lab.sql(loose, schema)} <= {"read_as_reader"}


# ── every call of every statement, as the server resolves it ─────────────────────────────────────────────────────


STRANGE = """
    SELECT p.oid::regprocedure::text FROM pg_catalog.pg_proc p
    WHERE p.oid = ANY (%s) AND p.pronamespace::regnamespace::text NOT IN ('pg_catalog', 'etl')
    UNION ALL
    SELECT o.oid::regoperator::text FROM pg_catalog.pg_operator o
    WHERE o.oid = ANY (%s) AND o.oprnamespace::regnamespace::text <> 'pg_catalog'
"""


def test_every_call_of_every_statement_of_ours_is_of_the_catalogue_or_of_etl(settled: Api) -> None:
    lab, log = settled.lab, Path(str(conninfo_to_dict(os.environ[SERVER])["host"])).parent / "log"
    database, start = lab.db.info.dbname, log.stat().st_size
    for setting, value in (("debug_print_rewritten", "on"), ("debug_pretty_print", "off"), ("log_min_messages", "log")):
        lab.sql(f"ALTER DATABASE {database} SET {setting} = {value}")
    settled.app.state.plane.pool.check()
    work(settled)
    trees = [record for record in told(log, start, database) if "DETAIL:  (" in record]
    used = used_by(trees)
    assert len(trees) > 300
    assert len(used[FUNCTIONS]) > 40
    assert len(used[OPERATORS]) > 20
    assert lab.sql(STRANGE, list(used[FUNCTIONS]), list(used[OPERATORS])) == []


PLACE = re.compile(r"%(?:\((\w+)\))?s|%%")
SENT = {  # with the type that the driver gives them
    "- %(by)s": "- CAST(%(by)s AS interval)",
    "%(slots)s": "CAST(%(slots)s AS integer)",
    "%(options)s": "CAST(%(options)s AS jsonb)",
}
# With places for names, or several in one, which are sent in another way; and those over tables of a source's own log.
COMPOSED = {"grant_meta", "give_reading", "grant_sealing", "future_marts", "future", "closed_now", "version_table"}
AT_A_SOURCE = {"create_log", "create_function", "any_new", "new", "halves", "switch", "emptied"}
AT_A_SOURCE |= {"position_is_gone", "log_size"}


def test_every_statement_that_is_written_down_finds_its_calls_in_the_catalogue_or_in_etl(planted: Lab) -> None:
    statements = {f"{f.stem} {name}": text for f in QUERIES.glob("*.sql") for name, text in queries(f.stem).items()}
    found = {path: resolved(planted, statements, path) for path in (SEARCH_PATH, "public, pg_catalog")}
    called, unread = found[SEARCH_PATH]
    assert len(called) > 300
    assert {name.split()[1] for name in unread} == COMPOSED | AT_A_SOURCE, unread
    assert strangers(planted, called) == set()
    assert strangers(planted, found["public, pg_catalog"][0])  # what it would be without the pinned path


def resolved(lab: Lab, statements: dict[str, str], path: str) -> tuple[dict[str, str], dict[str, str]]:
    """The server's tree of each, and why others have none."""
    trees: dict[str, str] = {}
    unread: dict[str, str] = {}
    told: list[str] = []
    with connect(lab.conninfo, "statements") as conn:
        conn.add_notice_handler(lambda notice: told.append(notice.message_detail or ""))
        conn.execute(f"SET search_path = {path}".encode())
        for name, value in TELLING.items():
            conn.execute(f"SET {name} = {value}".encode())
        for name, text in statements.items():
            told.clear()
            try:
                prepare(conn, numbered(text).encode())
            except psycopg.Error as error:
                unread[name] = str(error)
            trees[name] = "".join(told)
    return trees, unread


def numbered(text: str) -> str:
    """With places as the server knows them, the same for the same name."""
    names: dict[str | int, int] = {}

    def place(at: re.Match[str]) -> str:
        return "%" if at[0] == "%%" else f"${names.setdefault(at[1] or at.start(), len(names) + 1)}"

    for written, sent in SENT.items():
        text = text.replace(written, sent)
    return PLACE.sub(place, text)


def strangers(lab: Lab, trees: dict[str, str]) -> set[str]:
    """Functions and operators that are neither the server's own nor ours."""
    used = used_by(trees.values())
    return {name for (name,) in lab.sql(STRANGE, list(used[FUNCTIONS]), list(used[OPERATORS]))}


def work(api: Api) -> None:
    """Every mode, a comparison, and every page."""
    for mode, config in MODES.items():
        more = {"name": mode, "target_table": f"analytics.{mode.replace(' ', '_')}", "source_query": FILMS}
        pipeline = api.lab.add(**more | {"key": ["id"]} | config)
        assert api.lab.run(pipeline)["error"] is None
        assert api.lab.reconcile(pipeline)["equal"]
    for method, path in test_access.ROUTES:
        if method == "GET" and path not in test_access.FILES:
            api.clients["admin"].get(fill(path, ids(api)), params={"once": "true", "follow": "false"})
    follow(api)


def follow(api: Api) -> None:
    """A live mart in a crew, one made of it, sources and captures that are asked about."""
    lab = api.lab
    lab.configure(allowed_source_schemas=["content", "ugc", "analytics"])
    lab.connections = replace(lab.connections, capture_owners={"warehouse": lab.conninfo})
    with living(lab, "wal") as live, running(lab):
        pipeline = live.add("SELECT id, title FROM content.film_work", ["id"], name="followed")
        over = "SELECT id, title FROM analytics.mart"
        lab.add(name="above", target_table="analytics.above", source_query=over, key=["id"], after="upstream")
        lab.request(pipeline)
        wait_for(lambda: lab.status(pipeline) == "FOLLOWING", 20)
        lab.sql("UPDATE content.film_work SET title = title OPERATOR(pg_catalog.||) '?'::text")
        wait_for(lambda: not differences(lab.db, str(pipeline.source_query), "analytics.mart"), 20)
        wait_for(lambda: lab.value("SELECT to_regclass('analytics.above') IS NOT NULL"), 20)
        assert api.post("/sources/warehouse/test").json()["answers"]
        with sign_in(api, "admin") as browser:
            for path in ("/sources/warehouse/look", "/sources", "/system", "/pipelines/followed"):
                assert browser.get(path).status_code == 200
            for action in ("install", "remove"):
                form = {"action": action, "kind": "wal", "tables": "content.genre"}
                assert browser.post("/sources/warehouse/capture", data=form).status_code == 200


def used_by(trees: Iterable[str]) -> dict[frozenset[str], set[int]]:
    trees = list(trees)
    return {kind: {oid for tree in trees for oid in oids(tree, kind)} for kind in (FUNCTIONS, OPERATORS)}


def told(log: Path, start: int, database: str) -> list[str]:
    with log.open("rb") as file:
        file.seek(start)
        records = RECORD.split(file.read().decode(errors="replace"))
    return [record for record in records if f"@{database} vitrina" in record]


def oids(tree: str, kind: frozenset[str]) -> Iterator[int]:
    for name, one, many in FIELD.findall(tree):
        if name in kind:
            yield from map(int, many.split() if many else [one])
