"""Installing never breaks the application, removing leaves nothing, and both can be done again."""

from collections.abc import Iterator

import pytest

from tests.acceptance.client import vitrina
from tests.capturing import TABLES, Captured, capturing
from vitrina.capture.installation import plan_install, remove, uncovered
from vitrina.domain.errors import ConfigError
from vitrina.meta.repos.captures import CaptureRepo

KINDS = ["wal", "trigger"]
REMAINS = {
    "slots": "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()",
    "publications": "SELECT count(*) FROM pg_publication",
    "triggers": "SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'vitrina%'",
    "schemas": "SELECT count(*) FROM pg_namespace WHERE nspname = 'vitrina_capture'",
    "segments": "SELECT count(*) FROM pg_tables WHERE schemaname = 'etl_log'",
    "rows": "SELECT (SELECT count(*) FROM etl.etl_captures) + (SELECT count(*) FROM etl.etl_change_segments)",
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Captured]:
    with capturing("wal") as captured:
        yield captured


@pytest.fixture
def captured(request: pytest.FixtureRequest, shared: Captured) -> Iterator[Captured]:
    shared.kind = getattr(request, "param", "wal")
    yield shared
    shared.stop()
    found = CaptureRepo(shared.lab.db).find("warehouse")
    if found:
        remove(shared.lab.db, shared.lab.db, found)


def remains(captured: Captured) -> dict[str, int]:
    counts = {name: captured.lab.value(query) for name, query in REMAINS.items()}
    return {name: n for name, n in counts.items() if n}


REFUSED = {
    "no such table": ("SELECT 1", "content.nothing", "there is no table content.nothing"),
    "view": ("CREATE VIEW content.v AS SELECT 1 AS a", "content.v", "is a view"),
    "partition": ("SELECT 1", "content.parts_1", "is a partition — capture content.parts"),
    "unlogged": ("CREATE UNLOGGED TABLE content.u (id int PRIMARY KEY)", "content.u", "unlogged .* SET LOGGED"),
    "inherited": (
        "CREATE TABLE content.p (id int PRIMARY KEY); CREATE TABLE content.c () INHERITS (content.p)",
        "content.p",
        "inherit",
    ),
}
REFUSED_BY_WAL = {
    "no key": ("CREATE TABLE content.k (id int)", "content.k", "no primary key.*UPDATE and DELETE would fail.*FULL"),
    "nothing": (
        "CREATE TABLE content.n (id int PRIMARY KEY); ALTER TABLE content.n REPLICA IDENTITY NOTHING",
        "content.n",
        "no replica identity",
    ),
    "partition without": (
        "ALTER TABLE content.parts_2 REPLICA IDENTITY NOTHING",
        "content.parts",
        "content.parts_2 has no replica identity",
    ),
    "mixed": (
        "ALTER TABLE content.parts_2 REPLICA IDENTITY DEFAULT",
        "content.parts",
        "different replica identities",
    ),
}


@pytest.mark.parametrize("captured", KINDS, indirect=True)
@pytest.mark.parametrize("case", [*REFUSED, *REFUSED_BY_WAL])
def test_what_cannot_be_captured_is_refused_with_the_remedy(captured: Captured, case: str) -> None:
    setup, table, message = (REFUSED | REFUSED_BY_WAL)[case]
    with captured.conn.transaction(force_rollback=True):
        captured.conn.execute(setup.encode())
        if captured.kind == "trigger" and case in REFUSED_BY_WAL:
            plan_install(captured.lab.db, captured.conn, "warehouse", "trigger", [table])
            return
        with pytest.raises(ConfigError, match=message):
            captured.install(table)
    assert remains(captured) == {}


def test_columns_that_are_not_published_are_told_or_refused(captured: Captured) -> None:
    """On Postgres 18, UPDATE fails on a FULL table with columns that cannot be published."""
    if captured.conn.info.server_version < 180_000:
        pytest.skip("older servers publish no generated column, and let UPDATE pass")
    captured.run("CREATE TABLE content.g (id int PRIMARY KEY, s int GENERATED ALWAYS AS (id + 1) STORED)")
    captured.run("ALTER TABLE content.g REPLICA IDENTITY FULL")
    captured.install("content.g", "content.marks")
    captured.start()
    captured.run("INSERT INTO content.g VALUES (1)")
    captured.run("UPDATE content.g SET id = 2")
    captured.catch_up()
    assert [c["new_image"] for c in captured.changes("content.g")] == [{"id": "1", "s": "2"}, {"id": "2", "s": "3"}]
    captured.run("CREATE TABLE content.h (id int PRIMARY KEY, v int GENERATED ALWAYS AS (id + 1) VIRTUAL)")
    plan = plan_install(captured.lab.db, captured.conn, "warehouse", "wal", ["content.h"])
    assert any("content.h: generated columns are not in the captured images: v" in w for w in plan.warnings)
    captured.run("ALTER TABLE content.h REPLICA IDENTITY FULL")
    with pytest.raises(ConfigError, match=r"virtual columns \(v\)"):
        captured.install("content.h")
    captured.run("DROP TABLE content.h")


@pytest.mark.parametrize("captured", KINDS, indirect=True)
def test_the_application_goes_on_as_before(captured: Captured) -> None:
    """All statements of a role that has no rights on anything of ours, under any session's settings."""
    captured.run("GRANT USAGE ON SCHEMA content TO vitrina_api")
    captured.run("GRANT ALL ON ALL TABLES IN SCHEMA content TO vitrina_api")
    captured.install()
    captured.start()
    captured.run(
        "SET LOCAL ROLE vitrina_api", "SET LOCAL TimeZone = 'Asia/Tokyo'", "SET LOCAL DateStyle = 'German'",
        "SET LOCAL search_path = ''",
        "INSERT INTO content.items (id, at) VALUES (1, '2026-01-02 03:04:05+00')",
    )  # fmt: skip
    captured.run("SET LOCAL session_replication_role = 'replica'", "UPDATE content.items SET title = 'x'")
    captured.run("ALTER TABLE content.items DROP COLUMN pad", "ALTER TABLE content.items ADD COLUMN extra text")
    captured.run("SET LOCAL ROLE vitrina_api", "UPDATE content.items SET extra = 'y'", "DELETE FROM content.items")
    changes = [c for c in captured.catch_up() if c["op"] != "R"]
    assert [c["op"] for c in changes] == ["I", "U", "U", "D"]
    assert changes[0]["new_image"]["at"] == "2026-01-02 03:04:05+00"
    assert changes[2]["new_image"]["extra"] == "y"
    captured.run("ALTER TABLE content.items DROP COLUMN extra", "ALTER TABLE content.items ADD COLUMN pad char(4)")


@pytest.mark.parametrize("captured", KINDS, indirect=True)
def test_installing_again_changes_nothing_and_more_tables_can_be_added(captured: Captured) -> None:
    first = captured.install("content.keyed", "content.marks")
    captured.start()
    captured.run("INSERT INTO content.keyed VALUES (1, 'a')")
    captured.catch_up()
    plan = plan_install(
        captured.lab.db, captured.conn, "warehouse", captured.kind, ["content.keyed"], "vitrina_capture"
    )
    assert plan.statements == ()
    assert [*uncovered(captured.conn, captured.capture, ["content.items"])] == ["content.items"]
    captured.install("content.items")
    assert not uncovered(captured.conn, captured.capture, ["content.items", "content.keyed", "content.marks"])
    captured.run("INSERT INTO content.items (id) VALUES (77)", "DELETE FROM content.keyed")
    assert [c["op"] for c in captured.catch_up()] == ["I", "I", "D"]
    assert (captured.capture.slot, captured.capture.generation) == (first.slot, 1)
    captured.run("DELETE FROM content.items")


@pytest.mark.parametrize("captured", KINDS, indirect=True)
def test_removing_leaves_nothing_behind(captured: Captured) -> None:
    captured.install()
    captured.start()
    captured.run("INSERT INTO content.keyed VALUES (1, 'a')")
    captured.catch_up()
    remove(captured.lab.db, captured.conn, captured.capture)
    assert remains(captured) == {}
    captured.run("DELETE FROM content.keyed")


@pytest.mark.parametrize("captured", KINDS, indirect=True)
def test_some_tables_can_be_let_go(captured: Captured) -> None:
    captured.install()
    captured.start()
    remove(captured.lab.db, captured.conn, captured.capture, ["content.items", "content.parts"])
    captured.run("INSERT INTO content.items (id) VALUES (1)", "INSERT INTO content.keyed VALUES (1, 'a')")
    assert {c["relation"] for c in captured.catch_up() if c["op"] != "R"} == {"content.keyed"}
    captured.run("DELETE FROM content.items", "DELETE FROM content.keyed")


def test_a_source_is_captured_by_one_kind_only(captured: Captured) -> None:
    captured.install("content.marks")
    captured.kind = "trigger"
    with pytest.raises(ConfigError, match="captured by wal already"):
        captured.install("content.marks")


@pytest.mark.parametrize("captured", KINDS, indirect=True)
def test_an_install_that_was_killed_is_finished_by_the_next(captured: Captured) -> None:
    """All of it was done at the source, and the meta-store was not told."""
    captured.install()
    captured.lab.sql("UPDATE etl.etl_captures SET installed_at = NULL, position = NULL, tables = '{}'")
    captured.install()
    captured.start()
    captured.run("INSERT INTO content.keyed VALUES (1, 'a')")
    assert len(captured.catch_up()) == 1
    captured.run("DELETE FROM content.keyed")


@pytest.mark.parametrize("captured", KINDS, indirect=True)
def test_the_command_line(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_DATABASE_URL", captured.lab.conninfo)
    monkeypatch.setenv("VITRINA_CAPTURE_URL", captured.lab.connections.captures["warehouse"])
    captured.lab.sql(
        "INSERT INTO etl.etl_pipelines (name, mode, source_query, target_table, key)"
        " VALUES ('live one', 'live', 'SELECT k.id FROM content.keyed k', 'analytics.live_one', '{id}')"
    )
    vitrina("capture", "install", "--kind", captured.kind, expect=2)
    assert remains(captured) == {}
    said = vitrina("capture", "install", "--kind", captured.kind, "--yes", "-o", "json").json
    assert (said["kind"], said["tables"]) == (captured.kind, ["content.keyed"])
    assert said["statements"]
    shown = vitrina("capture", "install", "--tables", ",".join(TABLES), "--yes", "--verbose").out
    assert ("ALTER PUBLICATION" if captured.kind == "wal" else "CREATE TRIGGER") in shown
    (status,) = vitrina("capture", "status", "-o", "json").json
    assert sorted(status["tables"]) == sorted(TABLES)
    assert (status["pipelines"][0]["name"], status["pipelines"][0]["backlog"]) == ("live one", None)
    assert any("no runner captures" in warning for warning in status["warnings"])
    captured.start()
    captured.catch_up()
    text = vitrina("capture", "status").out
    assert "live one" in text
    assert "compares in full" in text
    vitrina("capture", "remove", "--yes")
    assert remains(captured) == {}
    assert "nothing is captured" in vitrina("capture", "status").out
    captured.lab.sql("DELETE FROM etl.etl_pipelines")
