"""What other packages bring by entry point: a writer, a tap. The writer also passes test_writers.py."""

import sys
from contextlib import closing
from pathlib import Path

import pytest
import structlog

from tests.acceptance.client import vitrina
from tests.living import living
from tests.sinks import SqliteSink, assert_equal, failed, went
from tests.support import Lab
from vitrina.capture.taps import find_kind
from vitrina.capture.wal import WalTap
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError

FILMS = "SELECT f.id AS film_id, f.title, f.rating FROM content.film_work f"
LIVE = """
    SELECT f.id, f.title, array_agg(DISTINCT g.name) FILTER (WHERE g.name IS NOT NULL) AS genres
    FROM content.film_work f LEFT JOIN content.genre_film_work fg ON fg.film_work_id = f.id
    LEFT JOIN content.genre g ON g.id = fg.genre_id GROUP BY f.id"""
TAP = """
from vitrina.capture.trigger import TriggerTap
class Counting(TriggerTap):
    polls = 0
    def poll(self, seconds):
        Counting.polls += 1
        return super().poll(seconds)
"""


def test_its_view_has_the_columns_of_the_query(sqlite: SqliteSink) -> None:
    pipeline = sqlite.lab.add(source_query=FILMS, key=["film_id"], target_table=sqlite.target)
    went(sqlite, pipeline)
    assert_equal(sqlite, pipeline)
    shown = sqlite.db.execute("SELECT film_id, title FROM mart ORDER BY film_id").fetchall()
    assert shown == sqlite.lab.sql('SELECT id::text, title FROM content.film_work ORDER BY id::text COLLATE "C"')


@pytest.mark.parametrize(
    ("before", "after", "more"),
    [
        ("numeric(9,2)", "numeric(9,3)", "1.004"),
        ("character(3)", "character(9)", "'longer'"),
        ("character(3)[]", "character(3)[]", "'{abc}'"),
        ("bit(3)", "bit(3)", "'110'"),
    ],
)
def test_a_key_is_not_cut_to_the_length_it_once_had(sqlite: SqliteSink, before: str, after: str, more: str) -> None:
    """The shadow's column stays; rounded there, a row would be taken for another, or be forgotten."""
    first = {"numeric(9,2)": "1", "character(3)": "'a'"}.get(before, "'{a}'" if "[" in before else "'101'")
    sqlite.lab.sql(f"CREATE TABLE content.wide (id {before}, n int); INSERT INTO content.wide VALUES ({first}, 1)")
    sqlite.lab.sql("GRANT SELECT ON content.wide TO vitrina_reader")
    pipeline = sqlite.lab.add(source_table="content.wide", key=["id"], target_table=sqlite.target)
    went(sqlite, pipeline)
    sqlite.lab.sql(f"ALTER TABLE content.wide ALTER id TYPE {after}; INSERT INTO content.wide VALUES ({more}, 2)")
    went(sqlite, pipeline)
    assert went(sqlite, pipeline) == (0, 0)
    sqlite.lab.sql("DELETE FROM content.wide WHERE n = 2")
    assert went(sqlite, pipeline) == (0, 1)
    assert len(sqlite.rows(["id"])) == 1


def test_who_was_taken_over_writes_nothing_more(sqlite: SqliteSink) -> None:
    pipeline = sqlite.lab.add(source_query=FILMS, key=["film_id"], target_table=sqlite.target)
    went(sqlite, pipeline)
    before = sqlite.rows(["film_id"])
    with closing(sqlite.db) as db, db:
        db.execute("UPDATE vitrina_mart SET epoch = 1000000")
    sqlite.lab.sql("UPDATE content.film_work SET title = 'other'")
    assert "somebody else writes to sqlite:mart" in failed(sqlite, pipeline)
    assert sqlite.rows(["film_id"]) == before


def test_a_reconcile_reads_what_the_store_really_holds(sqlite: SqliteSink) -> None:
    select = "SELECT id, title FROM content.film_work"
    pipeline = sqlite.lab.add(source_query=select, key=["id"], target_table=sqlite.target)
    went(sqlite, pipeline)
    assert sqlite.lab.reconcile(pipeline)["equal"]
    changed, deleted = list(sqlite.rows(["id"]))[:2]
    sqlite.damage(changed, deleted, {"id": "99", "title": "stranger"})
    report = sqlite.lab.reconcile(pipeline)
    assert [report[kind] for kind in ("missing", "extra", "different")] == [1, 1, 1]
    assert report["samples"]["different"][0]["columns"]["title"]["mart"] == "damaged"


def test_a_target_needs_a_word_and_a_writer(lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"], target_table="sqlite:mart")
    assert "VITRINA_ALLOWED_OTHER_TARGETS allows nothing" in str(lab.run(pipeline)["said"])
    lab.configure(allowed_other_targets=["sqlite:*"])
    assert "no writer is registered for sqlite:" in str(lab.run(pipeline)["said"])


def test_a_validation_says_what_it_would_make(sqlite: SqliteSink) -> None:
    pipeline = sqlite.lab.add(source_query=FILMS, key=["film_id"], target_table=sqlite.target)
    said = [finding.message for finding in Validation(sqlite.lab.connections).of(pipeline)]
    assert "sqlite:mart would be made with film_id, title, rating" in said


def test_a_live_mart_in_a_plugged_store_is_fed_by_a_plugged_tap(
    sqlite: SqliteSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_tap(tmp_path, "counting")
    monkeypatch.syspath_prepend(tmp_path)
    with living(sqlite.lab, "trigger", tap="counting") as live:
        mart = live.add(LIVE, ["id"], target_table=sqlite.target)
        live.follow(mart)
        sqlite.lab.sql("UPDATE content.genre SET name = name || '!'; DELETE FROM content.genre_film_work")
        live.follow(mart)
        assert_equal(sqlite, mart)
    assert sys.modules["counting_tap"].Counting.polls > 0


def test_a_tap_is_chosen_by_its_own_name_which_the_capture_keeps(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_tap(tmp_path, "counting")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("VITRINA_DATABASE_URL", lab.conninfo)
    tables = ("--tables", "content.genre", "--yes")
    assert "captured by counting: content.genre" in vitrina("capture", "install", "--kind", "counting", *tables).out
    assert lab.sql("SELECT kind, tap FROM etl.etl_captures") == [("trigger", "counting")]
    again = vitrina("capture", "install", "--tables", "content.film_work", "--yes", "-o", "json").json
    assert (again["kind"], again["tap"]) == ("trigger", "counting")
    assert "captured by counting already" in vitrina("capture", "install", "--kind", "trigger", *tables, expect=1).err
    assert vitrina("capture", "status", "-o", "json").json[0]["tap"] == "counting"


def test_a_package_cannot_take_the_place_of_a_built_in_tap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install_tap(tmp_path, "wal")
    monkeypatch.syspath_prepend(tmp_path)
    with structlog.testing.capture_logs() as said:
        assert find_kind("wal") is WalTap
    assert said == [
        {
            "event": "a tap has the name of a built-in kind and is not used",
            "kind": "wal",
            "packages": "counting-wal",
            "log_level": "warning",
        }
    ]


def test_two_packages_with_a_tap_of_the_same_name_are_told_apart_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_tap(tmp_path, "counting")
    _install_tap(tmp_path, "counting", package="counting-again")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="several packages bring a tap 'counting': counting-again, counting-counting"):
        find_kind("counting")


def test_a_kind_that_nobody_brings_is_said_with_those_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install_tap(tmp_path, "counting")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="there is no kind of capture 'proxy'") as refused:
        find_kind("proxy")
    assert "counting, trigger, wal" in str(refused.value.remedy)


def test_a_tap_says_how_its_source_is_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install_tap(tmp_path, "counting", what="pathlib:Path")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="does not say how a source is set up"):
        find_kind("counting")


def _install_tap(folder: Path, name: str, package: str = "", what: str = "counting_tap:Counting") -> None:
    package = package or f"counting-{name}"
    (folder / "counting_tap.py").write_text(TAP)
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[vitrina.captures]\n{name} = {what}\n")
