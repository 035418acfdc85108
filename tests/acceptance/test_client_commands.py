"""Every client command and every exit code, over real HTTP, on a real database, with a real runner."""

import re
from pathlib import Path

import pytest

from tests.acceptance.client import FILMS, Folder, Terminal, vitrina
from tests.contract.server import Api
from vitrina.cli import gitops
from vitrina.files import demo_pipelines

DEMO = Path(__file__).parents[2] / "examples" / "pipelines"


def test_a_mart_by_yaml_alone_from_plan_to_delete(api: Api, folder: Folder) -> None:
    folder.write()
    planned = vitrina("plan", folder.path).out
    assert 'ddl CREATE TABLE "analytics"."films"' in planned
    assert "a full load" in planned
    vitrina("apply", folder.path, "--yes")
    assert "SUCCESS" in vitrina("run", "films", "--wait").out
    assert "films: equal" in vitrina("reconcile", "films").out

    api.lab.sql("UPDATE analytics.films SET rating = -1 WHERE title LIKE 'Star Wars%%'")
    api.lab.sql("INSERT INTO analytics.films (film_id, title) VALUES (gen_random_uuid(), 'extra')")
    different = vitrina("reconcile", "films", expect=1).out
    assert "1 extra" in different
    assert "rating: query" in different
    vitrina("repair", "films", "--wait")
    assert vitrina("reconcile", "films", "-o", "json").json["result"]["equal"] is True

    vitrina("export", "-o", folder.path.parent / "exported")
    assert "nothing to do" in vitrina("plan", folder.path.parent / "exported", "--prune").out
    vitrina("delete", "films", "--yes")
    assert vitrina("list", "-o", "json").json == []
    assert api.lab.value("SELECT count(*) FROM analytics.films") == 60


def test_the_demo_folder_applies_and_exports_to_itself(api: Api, tmp_path: Path) -> None:
    vitrina("apply", DEMO, "--yes")
    assert vitrina("plan", DEMO, "-o", "json").json["changes"] == []
    names = {pipeline.name for pipeline in demo_pipelines()}
    assert {row["name"] for row in vitrina("list", "-o", "json").json} == names
    assert {file.stem for file in DEMO.glob("*.yaml")} == names
    exported = vitrina("export").out
    assert "source_query: |\n  SELECT f.id AS film_id" in exported
    (tmp_path / "all.yaml").write_text(exported)
    assert "nothing to do: 5 unchanged" in vitrina("apply", tmp_path / "all.yaml", "--prune", "--yes").out
    preview = vitrina("preview", "film_catalog", "--limit", "3", "-o", "json").json
    assert len(preview["rows"]) in (2, 3)  # one of the transforms leaves films without a title out
    assert "decade" in preview["rows"][0]


# ── plan and apply ───────────────────────────────────────────────────────────────────────────────────────────


def test_plan_shows_fields_and_query_lines_and_apply_makes_them_so(api: Api, folder: Folder) -> None:
    folder.write()
    vitrina("apply", folder.path, "--yes")
    folder.write(batch_size=7, source_query=FILMS + "WHERE f.rating > 5\n", schedule_interval="1h")
    planned = vitrina("plan", folder.path).out
    assert "batch_size: 5000 → 7" in planned
    assert "schedule_interval: (none) → 1h" in planned
    assert "      +WHERE f.rating > 5" in planned
    assert "then a full" in planned
    vitrina("apply", folder.path, "--yes")
    assert "nothing to do" in vitrina("plan", folder.path).out
    assert api.get("/pipelines/films")["config"]["batch_size"] == 7


def test_an_edit_that_keeps_the_checkpoint_promises_no_load(api: Api, folder: Folder) -> None:
    folder.write()
    vitrina("apply", folder.path, "--yes")
    folder.write(batch_size=7)
    assert vitrina("plan", folder.path, "-o", "json").json["changes"][0]["follows"] == ""


def test_prune_deletes_what_the_files_do_not_have_and_only_then(api: Api, folder: Folder) -> None:
    api.create("old")
    folder.write()
    assert "kept (--prune deletes them): old" in vitrina("apply", folder.path, "--yes").out
    assert "- delete old" in vitrina("plan", folder.path, "--prune").out
    assert vitrina("apply", folder.path, "--prune", "--yes", "-o", "json").json["applied"] == ["old"]
    assert [row["name"] for row in api.get("/pipelines")["items"]] == ["films"]


def test_a_pruned_target_can_be_taken_over_in_the_same_apply(api: Api, folder: Folder) -> None:
    api.create("old", target_table="analytics.films")
    folder.write()
    assert "'analytics.films' is taken by pipeline 'old'" in vitrina("plan", folder.path, expect=1).out
    vitrina("apply", folder.path, "--prune", "--yes")
    assert [row["name"] for row in api.get("/pipelines")["items"]] == ["films"]


def test_one_invalid_file_and_nothing_is_applied(api: Api, folder: Folder) -> None:
    folder.write("good")
    folder.write("bad", source_query="SELECT pg_sleep(1) AS film_id")
    said = vitrina("apply", folder.path, "--yes", expect=1)
    assert "1 of 2 changes cannot be made; nothing was done" in said.err
    assert api.get("/pipelines")["items"] == []


def test_apply_asks_on_a_terminal_and_needs_yes_elsewhere(
    api: Api, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write()
    assert "--yes" in vitrina("apply", folder.path, expect=2).err
    for answer, expected in (("n\n", 1), ("y\n", 0)):
        monkeypatch.setattr("sys.stdin", Terminal(answer))
        vitrina("apply", folder.path, expect=expected, terminal=True)
    assert api.get("/pipelines/films")["version"] == 1


def test_apply_refuses_what_changed_after_it_was_planned(
    api: Api, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write()
    vitrina("apply", folder.path, "--yes")
    folder.write(batch_size=7)
    monkeypatch.setattr(gitops, "ask", lambda *_: api.patch("films", {"batch_size": 8}))
    assert "0 changes are made, 1 are not" in vitrina("apply", folder.path, "--yes", expect=1).err
    assert api.get("/pipelines/films")["config"]["batch_size"] == 8


def test_a_running_pipeline_is_not_edited_nor_deleted(api: Api, folder: Folder) -> None:
    folder.write()
    vitrina("apply", folder.path, "--yes")
    folder.write(mode="incremental", incremental_key="rating")
    with api.lab.db.transaction():
        api.lab.sql("LOCK TABLE content.film_work IN ACCESS EXCLUSIVE MODE")
        vitrina("run", "films")
        api.wait_for("films", "RUNNING")
        assert "cannot be changed while it is RUNNING" in vitrina("plan", folder.path, expect=1).out
        assert "pause it" in vitrina("delete", "films", "--yes", expect=1).err
        assert "RUNNING already: --restart has no effect" in vitrina("run", "films", "--restart").err
        assert "takes version 1" in vitrina("reload-config", "films").out
        assert "the time is up" in vitrina("run", "films", "--wait", "--timeout", "0.5", expect=1).err
    assert "SUCCESS" in vitrina("run", "films", "--wait").out


def test_files_that_disagree_are_refused_together(api: Api, folder: Folder) -> None:
    folder.write("one", target_table="analytics.same")
    folder.write("two", target_table="analytics.same")
    (folder.path / "wrong.yaml").write_text("name: wrong\nbatch_sise: 3\n")
    said = vitrina("plan", folder.path, expect=1).err
    assert "batch_sise" in said
    assert "two pipelines have the target 'analytics.same'" in said


def test_a_folder_without_pipelines_prunes_nothing(api: Api, folder: Folder) -> None:
    api.create("old")
    assert "there is no pipeline in" in vitrina("apply", folder.path, "--prune", "--yes", expect=1).err
    vitrina("apply", folder.path / "nowhere", "--yes", expect=2)


def test_files_and_folders_together_are_one_plan_with_one_end(api: Api, folder: Folder, tmp_path: Path) -> None:
    more = Folder(tmp_path / "more")
    more.path.mkdir()
    one, two, three = folder.write("one"), folder.write("two"), more.write("three")
    assert "plan: 3 to create" in vitrina("plan", folder.path, one, more.path).out
    vitrina("apply", one, three, "--yes")
    said = vitrina("apply", folder.path, more.path, "--yes").out
    assert "plan: 1 to create, 0 to update, 0 to delete, 2 unchanged" in said
    three.unlink()
    assert "there is no pipeline in" in vitrina("apply", folder.path, more.path, "--prune", "--yes", expect=1).err
    two.unlink()
    said = vitrina("apply", folder.path, "--prune", "--yes").out
    assert "deleted three" in said
    assert [row["name"] for row in api.get("/pipelines")["items"]] == ["one"]


def test_what_is_wrong_with_each_of_several_files_is_said_at_once(api: Api, folder: Folder) -> None:
    good, torn, wrong = folder.write("good"), folder.path / "torn.yaml", folder.path / "wrong.yaml"
    torn.write_text("name: [torn")
    wrong.write_text("name: wrong\nmode: sideways\n")
    for command in (("plan",), ("apply", "--yes")):
        said = vitrina(*command, good, torn, wrong, expect=1).err
        assert "torn.yaml is no YAML" in said
        assert "sideways" in said or "mode" in said
    assert api.get("/pipelines")["items"] == []
    said = vitrina("validate", good, torn, wrong, "nobody", expect=1).out
    assert re.findall(r"^(\S+): (valid|INVALID)$", said, flags=re.MULTILINE) == [
        ("good", "valid"),
        (str(torn), "INVALID"),
        ("wrong", "INVALID"),
        ("nobody", "INVALID"),
    ]
    assert said.splitlines()[-1] == "1 valid, 3 invalid"


def test_an_id_in_the_file_makes_a_new_name_a_rename(api: Api, folder: Folder) -> None:
    stored = api.create("films")
    folder.write("renamed", id=stored["id"], target_table="analytics.films")
    assert "name: films → renamed" in vitrina("apply", folder.path, "--yes").out
    assert api.get("/pipelines/renamed")["id"] == stored["id"]


# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_run_waits_for_the_outcome_and_exits_by_it(api: Api) -> None:
    api.create("films", batch_size=10)
    lines = vitrina("run", "films", "--wait").out
    assert "loaded" in lines
    assert "60 written" in lines
    run = vitrina("run", "films", "--wait", "-o", "json").json
    assert (run["status"], run["rows_unchanged"]) == ("SUCCESS", 60)
    api.create("broken", source_query="SELECT id AS film_id, 1 / (length(title) * 0) AS x FROM content.film_work")
    assert "broken FAILED: division by zero" in vitrina("run", "broken", "--wait", expect=1).err
    assert vitrina("status", "broken", "-o", "json").json["status"] == "FAILED"
    assert "nothing to pause" in vitrina("pause", "broken", expect=1).err


def test_run_shows_a_bar_on_a_terminal(api: Api) -> None:
    api.create("films", batch_size=1)
    assert "SUCCESS" in vitrina("run", "films", "--wait", terminal=True).out


def test_pause_rests_and_run_goes_on(api: Api) -> None:
    api.create("films", batch_size=1)
    assert vitrina("run", "films", "-o", "json").json["changed"] is True
    assert vitrina("pause", "films", "--wait", "-o", "json").json["status"] == "PAUSED"
    assert "already" in vitrina("pause", "films").out
    assert "SUCCESS" in vitrina("run", "films", "--wait").out
    assert api.lab.value("SELECT count(*) FROM analytics.films") == 60


def test_disabled_is_not_run(api: Api) -> None:
    api.create("films")
    assert "disabled" in vitrina("disable", "films").out
    assert "enable it first" in vitrina("run", "films", expect=1).err
    assert "IDLE (disabled)" in vitrina("list", "--disabled").out
    assert vitrina("enable", "films", "-o", "json").json["config"]["enabled"] is True


def test_reconcile_shows_the_last_report_without_asking(api: Api) -> None:
    api.create("films")
    assert "does not exist yet" in vitrina("reconcile", "films", expect=1).err
    vitrina("run", "films", "--wait")
    report = vitrina("reconcile", "films", "--control-field", "rating", "-o", "json").json
    assert report["result"]["control"]["field"] == "rating"
    assert "min rating" in vitrina("reconcile", "films", "--last").out
    api.create("other")
    assert "never reconciled" in vitrina("reconcile", "other", "--last", expect=1).err


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_looking_as_text_and_as_json(api: Api) -> None:
    api.create("films", source_query="SELECT id AS film_id, title, modified FROM content.film_work", mode="incremental",
               incremental_key="modified")  # fmt: skip
    vitrina("run", "films", "--wait")
    assert "target_table: analytics.films" in vitrina("get", "films").out
    assert vitrina("get", "films", "-o", "json").json["name"] == "films"
    assert "SUCCESS" in vitrina("status", "films").out
    assert "rows before it are final" in vitrina("state", "films").out
    assert vitrina("state", "films", "-o", "json").json["last_processed_value"]
    assert "SUCCESS" in vitrina("runs", "films", "--limit", "1").out
    assert len(vitrina("runs", "films", "-o", "json").json) == 1
    assert "title   ← content.film_work.title" in vitrina("lineage", "films").out.replace("title    ←", "title   ←")
    assert vitrina("lineage", "-o", "json").json[0]["tables"] == ["content.film_work"]
    assert len(vitrina("preview", "films", "-n", "2", "-o", "json").json["rows"]) == 2
    assert "film_id" in vitrina("preview", "films", "-n", "2").out
    assert vitrina("list", "--status", "FAILED", "-o", "json").json == []
    assert "no pipelines match" in vitrina("list", "--name", "zzz").out


def test_lists_are_read_page_by_page(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitrina.client.client.PAGE", 2)
    for number in range(5):
        api.create(f"films_{number}")
    assert len(vitrina("list", "-o", "json").json) == 5


def test_validate_files_folders_and_names(api: Api, folder: Folder) -> None:
    api.create("stored")
    good, bad = folder.write("good"), folder.write("bad", target_table="content.bad")
    found = vitrina("validate", good, "stored", "-o", "json").json
    assert [(result["name"], result["valid"]) for result in found] == [("good", True), ("stored", True)]
    assert "remedy: name a target that matches" in vitrina("validate", folder.path, expect=1).out
    bad.write_text("name: bad\nmode: sideways\n")
    assert "mode" in vitrina("validate", bad, expect=1).out
    vitrina("validate", "nobody", expect=1)
    vitrina("validate", "nowhere.yaml", expect=1)


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_usage_errors_exit_2() -> None:
    vitrina("lst", expect=2)
    vitrina("list", "--status", "SLEEPING", expect=2)
    vitrina("run", expect=2)
    vitrina("preview", "films", "--limit", "0", expect=2)


def test_nobody_there_no_token_wrong_token_small_role(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "vitrina list" in vitrina("get", "nobody", expect=1).err
    monkeypatch.setenv("VITRINA_TOKEN", api.tokens["viewer"])
    vitrina("list")
    api.create("films")
    assert "needs the role operator" in vitrina("run", "films", expect=1).err
    monkeypatch.setenv("VITRINA_TOKEN", "vtr_wrong")
    assert "unknown or revoked" in vitrina("list", expect=1).err
    monkeypatch.delenv("VITRINA_TOKEN")
    assert "there is no token" in vitrina("list", expect=1).err
    monkeypatch.setenv("VITRINA_URL", "http://127.0.0.1:9")
    said = vitrina("list", "-o", "json", expect=1)
    assert said.out == ""
    assert "remedy: start one with: vitrina up" in said.err


def test_a_folder_that_cannot_be_made_is_a_sentence(api: Api) -> None:
    said = vitrina("export", "--folder", Path(__file__) / "below", expect=1).err
    assert "Not a directory" in said
    assert "Traceback" not in said


def test_an_address_without_a_scheme_is_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITRINA_URL", "127.0.0.1:8765")
    assert "VITRINA_URL is no address: 127.0.0.1:8765" in vitrina("list", expect=1).err


def test_sentences_are_folded_between_words_on_a_terminal(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    said = vitrina("get", "nobody", expect=1, terminal=True).err
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in said.splitlines()]
    assert plain[:2] == ["error: there is no pipeline", "       'nobody'"]


def test_what_cannot_be_done_promises_nothing(api: Api, folder: Folder) -> None:
    file = folder.write("elsewhere", target_table="content.elsewhere")
    planned = vitrina("plan", file, expect=1).out
    assert "VITRINA_ALLOWED_TARGET_TABLES" in planned
    assert "CREATE TABLE" not in planned
    assert "then" not in planned


def test_apply_says_what_comes_next(api: Api, folder: Folder) -> None:
    assert "next: vitrina run films --wait" in vitrina("apply", folder.write(), "--yes").out
    scheduled = folder.write("others", schedule_interval="1d")
    assert "next:" not in vitrina("apply", scheduled, "--yes").out


# ── several at once ──────────────────────────────────────────────────────────────────────────────────────────


def test_all_with_a_label_are_run_paused_resumed_and_switched_off_together(api: Api) -> None:
    for name, labels in (("films", ["team:search"]), ("people", ["team:search", "tier:1"]), ("genres", [])):
        api.create(name, labels=labels)
    assert vitrina("run", "--label", "team:search", "--wait").out.count("SUCCESS") == 2
    assert api.get("/pipelines/genres/status")["last_run"] is None
    vitrina("pause", "--label", "tier:1", "--wait")
    resumed = vitrina("resume", "-l", "team", "--wait", "-o", "json").json
    assert [(run["name"], run["status"]) for run in resumed] == [("people", "SUCCESS")]
    assert vitrina("disable", "--label", "team").out == "films is disabled\npeople is disabled\n"
    refused = vitrina("run", "--label", "team", expect=1)
    assert refused.err.count("is disabled") == 2
    vitrina("enable", "--label", "team")
    listed = vitrina("list", "--label", "team:search").out
    assert "team:search, tier:1" in listed
    assert "genres" not in listed


def test_nothing_said_never_means_all_of_them(api: Api) -> None:
    api.create()
    for command in ("run", "pause", "resume", "enable", "disable"):
        assert "--label" in vitrina(command, expect=2).err
        assert "--label" in vitrina(command, "films", "--label", "team", expect=2).err
        assert "no pipeline is labelled team" in vitrina(command, "--label", "team", expect=1).err
    assert "not paused" in vitrina("resume", "films", expect=1).err


def test_alerts_are_listed_and_a_destination_that_nobody_has_is_said(api: Api) -> None:
    api.lab.sql("TRUNCATE etl.etl_destinations, etl.etl_alerts, etl.etl_deliveries")
    assert "VITRINA_ALERTS__NAME__URL" in vitrina("alert", "list").out
    assert "nothing has been told" in vitrina("alert", "deliveries").out
    assert "VITRINA_ALERTS__OPS__URL" in vitrina("alert", "test", "ops", expect=1).err
    api.lab.sql("INSERT INTO etl.etl_destinations VALUES ('ops', 'slack', 'https://h', '{team:search}', '{failed}')")
    assert "team:search" in vitrina("alert", "list").out
    refused = vitrina("alert", "test", "ops", expect=1).err  # the runner beside it has none
    assert "has no destination 'ops'; it has: none" in refused
    assert vitrina("alert", "deliveries", "-o", "json").json == []
