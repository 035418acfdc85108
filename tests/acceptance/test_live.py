"""A live mart from a file to following, and captures, as a user of the command line meets them."""

import re
from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from tests.acceptance.client import Folder, vitrina
from tests.acceptance.processes import Cli
from tests.capturing import Captured, capturing_from, own_server
from tests.contract.server import Api
from tests.integration.test_following import writing
from tests.patience import wait
from tests.support import Lab, differences, wait_for
from vitrina.cli.checking import Check, captures
from vitrina.cli.freshness import fresh, live_fields
from vitrina.demo.following import capture_cinema
from vitrina.files import demo_pipelines

CARD = """\
SELECT f.id AS film_id, f.title, array_agg(g.name ORDER BY g.name) AS genres
FROM content.film_work f
JOIN content.genre_film_work fg ON fg.film_work_id = f.id
JOIN content.genre g ON g.id = fg.genre_id
GROUP BY f.id
"""
TABLES = "content.film_work,content.genre,content.genre_film_work"


@pytest.fixture
def own(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """By URL, with each role's own; nothing stays captured."""
    monkeypatch.setenv("VITRINA_DATABASE_URL", api.lab.conninfo)
    for name, role in (("RUNNER_URL", "runner"), ("READER_URL", "reader"), ("CAPTURE_URL", "capture")):
        monkeypatch.setenv(f"VITRINA_{name}", make_conninfo(api.lab.conninfo, user=f"vitrina_{role}"))
    yield api
    if api.lab.value("SELECT count(*) FROM etl.etl_captures"):
        vitrina("capture", "remove", "--yes")
    api.lab.sql("ALTER TABLE content.genre_film_work REPLICA IDENTITY DEFAULT")


def test_from_a_file_to_following(own: Api, folder: Folder) -> None:
    folder.write("card", source_query=CARD, mode="live")
    planned = vitrina("plan", folder.path).out
    assert "live a change in content.genre refreshes the rows that carry it\n" in planned
    assert "mode: a change in content.genre_film_work refreshes everything: the old value of film_work_id" in planned
    assert "remedy: ALTER TABLE content.genre_film_work REPLICA IDENTITY FULL\n" in planned
    assert f"remedy: vitrina capture install --source warehouse --tables {TABLES}\n" in planned

    own.lab.sql("ALTER TABLE content.genre_film_work REPLICA IDENTITY FULL")
    vitrina("capture", "install", "--source", "warehouse", "--tables", TABLES, "--yes")
    assert "warning" not in vitrina("validate", folder.path).out
    assert "next: vitrina run" not in vitrina("apply", folder.path, "--yes").out

    wait_for(lambda: vitrina("status", "card", "-o", "json").json["live"]["state"] == "following", 30)
    own.lab.sql("UPDATE content.genre SET name = name || '!'")
    mart = "SELECT count(*) FROM analytics.card WHERE NOT array_to_string(genres, '') LIKE '%!'"
    wait_for(lambda: own.lab.value(mart) == 0, 30)
    found = wait(
        lambda: vitrina("status", "card", "-o", "json").json["live"],
        lambda live: live["state"] == "following" and live["lag_ms"],
    )
    assert found["capture"] == []
    said = vitrina("status", "card").out
    assert "following, with all that was committed until" in said
    assert f"{found['lag_ms']:,.0f} ms from commit to mart" in said
    assert "0 changes" in vitrina("state", "card").out
    (listed,) = [line for line in vitrina("list").out.splitlines() if line.startswith("card")]
    assert f"continuously  following, {found['lag_ms']:,.0f} ms" in listed
    own.lab.sql("UPDATE content.genre SET name = rtrim(name, '!')")


def test_everything_can_be_asked_of_a_mart_that_is_followed_while_its_tables_change(own: Api, folder: Folder) -> None:
    lab, query = own.lab, "SELECT id AS film_id, title FROM content.film_work"
    folder.write("titles", source_query=query, mode="live")
    vitrina("capture", "install", "--tables", "content.film_work", "--yes")
    with writing(lab, 50):
        vitrina("apply", folder.path, "--yes")
        assert "SUCCESS" in vitrina("run", "titles", "--wait").out
        wait_for(lambda: vitrina("status", "titles", "-o", "json").json["status"] == "FOLLOWING")
        for command in (["run"], ["run", "--rebuild"], ["repair"]):
            before = lab.value("SELECT max(id) FROM etl.etl_runs")
            assert "SUCCESS" in vitrina(*command, "titles", "--wait").out
            assert lab.value("SELECT max(id) FROM etl.etl_runs") > before
        folder.write("titles", source_query=f"{query} WHERE title > ''", mode="live", batch_size=100)
        assert "WHERE" in vitrina("plan", folder.path).out
        vitrina("apply", folder.path, "--yes")
        wait_for(lambda: vitrina("status", "titles", "-o", "json").json["status"] == "FOLLOWING")
        assert "PAUSED" in vitrina("pause", "titles").out
        assert "SUCCESS" in vitrina("run", "titles", "--wait").out
        vitrina("disable", "titles")
        assert vitrina("status", "titles", "-o", "json").json["status"] == "IDLE"
        vitrina("enable", "titles")
        wait_for(lambda: vitrina("status", "titles", "-o", "json").json["status"] == "FOLLOWING")
    lab.sql("UPDATE content.film_work SET title = id::text")
    wait_for(lambda: differences(lab.db, query, "analytics.titles") == 0, 30)
    assert "titles: equal" in vitrina("reconcile", "titles").out
    assert [status for (status,) in lab.sql("SELECT DISTINCT status FROM etl.etl_runs")] == ["SUCCESS"]
    vitrina("delete", "titles", "--yes")
    lab.sql("UPDATE content.film_work SET title = 'film'")


def test_switching_to_live_and_what_follows_is_planned(own: Api, folder: Folder) -> None:
    folder.write("card", source_query=CARD)
    vitrina("apply", folder.path, "--yes")
    assert "SUCCESS" in vitrina("run", "card", "--wait").out
    folder.write("card", source_query=CARD, mode="live")
    planned = vitrina("plan", folder.path).out
    assert "mode: full → live" in planned
    assert "the next run writes where analytics.card differs, and then follows changes" in planned


# ── the doctor ───────────────────────────────────────────────────────────────────────────────────────────────


def about(source: str) -> dict[str, str]:
    """Message and level of the doctor's lines about a capture."""
    checks = vitrina("doctor", "-o", "json").json
    return {check["message"]: check["level"] for check in checks if check["about"] == f"capture {source}"}


def test_the_doctor_looks_at_captures(own: Api) -> None:
    assert about("warehouse") == {}
    vitrina("capture", "install", "--tables", TABLES, "--yes")
    held = "SELECT count(*) FROM etl.etl_captures WHERE owner IS NOT NULL AND caught_up_at IS NOT NULL"
    wait_for(lambda: own.lab.value(held) == 1, 30)
    ((message, level),) = about("warehouse").items()
    assert (level, message.startswith("by wal, 3 tables, read by ")) == ("ok", True)


@pytest.fixture
def installed(lab: Lab) -> Captured:
    """A capture that nobody reads."""
    captured = Captured(lab, "wal")
    captured.install(*TABLES.split(","))
    return captured


def checks(captured: Captured) -> list[Check]:
    """The doctor's word about it."""
    return list(captures(captured.lab.db, captured.lab.connections))


def test_a_capture_that_nobody_holds_is_a_warning(installed: Captured) -> None:
    (found,) = checks(installed)
    assert (found.level, found.message) == ("warn", "no runner captures")
    assert "vitrina runner" in found.remedy


def test_kept_wal_a_lost_slot_and_a_follower_far_behind_are_said(installed: Captured) -> None:
    lab = installed.lab
    lab.add(name="card", source_query=CARD, key=["film_id"], mode="live")
    lab.sql("UPDATE etl.etl_captures SET last_id = 500000, lag_bytes = 5000000000")
    lab.sql(
        "UPDATE etl.etl_state SET checkpoint = jsonb_build_object('live', jsonb_build_object("
        "'source', 'warehouse', 'slot', c.slot, 'generation', 1, 'id', 100)) FROM etl.etl_captures c"
    )
    said = {check.message: check.remedy for check in checks(installed)}
    assert said["card (IDLE) is 499,900 changes behind, which are kept for it"].startswith("vitrina run card")
    assert any(message.startswith("the source keeps 5,000,000,000 bytes of WAL for slot") for message in said)
    lab.sql("UPDATE etl.etl_captures SET wal_status = 'lost'")
    assert any(check.level == "fail" and "is gone" in check.message for check in checks(installed))


def test_a_slot_without_a_limit_is_a_warning() -> None:
    with own_server(max_slot_wal_keep_size="-1") as server, capturing_from(server.conninfo(), "wal") as captured:
        captured.install("content.keyed")
        found = {check.message.split(":")[0]: check for check in checks(captured)}
        assert found["max_slot_wal_keep_size is -1"].level == "warn"
        assert "ALTER SYSTEM SET max_slot_wal_keep_size" in found["max_slot_wal_keep_size is -1"].remedy
        captured.conn.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


# ── the demo ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_demo_shows_a_rating_and_a_genre_arrive_and_leaves_the_cinema_as_it_was(stack: Cli) -> None:
    first = stack("demo", "--films", "50", "--ratings", "300", "--no-search")
    shown = first.split("\nlive: ")[1].split("\nms: ")[0]
    rated, renamed = [line for line in shown.splitlines() if line.startswith("analytics.film_card")]
    assert "Sci-Fi" in renamed.split("Science Fiction")[0]
    assert all(int(line.split()[-1].replace(",", "")) > 0 for line in (rated, renamed))
    second = stack("demo", "--films", "50", "--ratings", "300", "--no-search")
    assert "nothing had changed, and nothing was rewritten" in second
    assert second.split("\nlive: ")[1].split("\n")[0] == shown.split("\n")[0]


def test_capturing_the_cinema_again_changes_nothing(lab: Lab) -> None:
    assert capture_cinema(lab.db, "vitrina_capture") == "wal"
    before = lab.sql("SELECT slot, generation, epoch, tables FROM etl.etl_captures")
    assert capture_cinema(lab.db, "vitrina_capture") == "wal"
    assert lab.sql("SELECT slot, generation, epoch, tables FROM etl.etl_captures") == before


def test_every_table_of_the_demos_live_marts_refreshes_just_its_rows(own: Api) -> None:
    capture_cinema(own.lab.db, "vitrina_capture")
    (card,) = demo_pipelines("live")
    for config in (card, *demo_pipelines("indexes")):
        body = config.model_dump(mode="json") | {
            "target_table": f"analytics.{config.name}",
            "mapping": {},
            "settings": {},
        }
        found = own.post("/validate", body).json()["findings"]
        assert [f for f in found if f["where"] == "mode" and f["level"] != "info"] == []


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────

AT = "2026-01-01T00:00:00+00:00"
FOLLOWING = {"state": "following", "behind": 0, "lag_ms": 1234.4, "applied_at": AT, "as_of": AT, "capture": []}


def test_freshness_in_words() -> None:
    assert fresh(None) == ""
    assert fresh(FOLLOWING) == "following, 1,234 ms"
    assert fresh(FOLLOWING | {"lag_ms": 65_000}) == "following, 65 s"
    assert fresh(FOLLOWING | {"state": "catching up", "behind": 1200}) == "catching up, 1,200 changes behind"
    late = FOLLOWING | {"state": "catching up", "behind": 2175}
    assert fresh(late | {"rate": 400.2, "seconds_left": 5.4}) == "catching up, 2,175 changes behind, 400/s, about 5.4 s"
    assert fresh(late | {"compares_at": "2126-01-01T00:00:00+00:00"}).endswith(" d at the latest")
    audit = {"share": 1.0, "since": AT, "wrong": 0}
    assert re.fullmatch(
        r"100% since 202\d-\d\d-\d\d \d\d:\d\d, 0 wrong", live_fields(FOLLOWING | {"audit": audit})["audited"]
    )
    assert fresh(FOLLOWING | {"capture": ["x"]}) == "following, 1,234 ms, trouble with the capture"
    halted = FOLLOWING | {"state": "capture stopped", "why": "x", "capture": ["x", "y"]}
    assert fresh(halted) == "capture stopped, 1,234 ms"
    assert (live_fields(halted)["why"], live_fields(halted)["capture"]) == ("x", "y"), "nothing is said twice"
    assert live_fields(halted | {"capture": ["x"]})["capture"] is None
    assert live_fields(None) == {}
    never = live_fields({"state": "not live", "behind": None, "lag_ms": None, "as_of": None, "capture": ["a", "b"]})
    assert never == {
        "live": "not live",
        "why": None,
        "behind": None,
        "latency": None,
        "audited": None,
        "capture": "a; b",
    }
    next_ = live_fields(FOLLOWING | {"state": "compares next", "why": "the view content.v was replaced"})
    assert next_["why"] == "the view content.v was replaced"
