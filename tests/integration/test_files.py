"""Marts in files of Parquet: versions that are their query, row for row and type for type."""

from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tests.files import MANIFEST, FilesSink
from tests.integration.test_lake import make_exact
from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code
from vitrina.domain.pipeline import Pipeline
from vitrina.neighbours import Neighbours
from vitrina.sinks.documents import editions
from vitrina.sinks.files import draft
from vitrina.sinks.files.shape import FilesShape
from vitrina.sinks.parquet.parsing import Text, to_arrow
from vitrina.sinks.registry import look_at_sinks, tidy
from vitrina.sql.describe import Column
from vitrina.testing import SinkConformance
from vitrina.testing.marts import CURSOR, assert_equal, failed, items, went


@pytest.fixture
def files(lab: Lab, tmp_path: Path) -> FilesSink:
    return FilesSink(lab, tmp_path / "mart")


class TestFiles(SinkConformance):
    """What every kind must do."""

    test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm: Any = None  # below: of the manifest alone
    test_an_older_epoch_changes_nothing: Any = None  # tests/faults/test_files.py: it is the manifest that is fenced

    @pytest.fixture
    def mart(self, files: FilesSink) -> FilesSink:
        return files


def errors_of(files: FilesSink, **config: Any) -> str:
    """What is said when it is saved."""
    known = {"name": "m", "source_query": "SELECT id, title FROM content.item", "key": ["id"]}
    found = Validation(files.lab.connections).of(Pipeline.parse(known | {"target_table": files.target} | config))
    return "; ".join(f"{finding.message} {finding.remedy}" for finding in found if finding.level == "error")


def test_every_type_is_kept_exactly_and_read_by_duckdb(files: FilesSink) -> None:
    make_exact(files.lab)
    pipeline = files.lab.add(source_table="content.exact", key=["id"], target_table=files.target)
    assert went(files, pipeline) == (3, 0)
    assert_equal(files, pipeline)
    report = files.lab.reconcile(pipeline)
    assert (report["equal"], report["samples"]["different"]) == (True, [])
    assert went(files, pipeline, repair=True) == (0, 0)
    kinds = {field.name: str(field.type) for field in files.table.schema}
    assert kinds["price"] == "decimal128(38, 10)"
    assert kinds["instant"] == "timestamp[us, tz=UTC]" or kinds["instant"].startswith("timestamp[us, tz=")
    assert (kinds["who"], kinds["tags"]) == ("string", "list<l: string>")


@pytest.mark.parametrize("name", ["price", "who", "instant", "yes", "code", "hour", "moment"])
def test_a_key_of_any_type_finds_its_row(files: FilesSink, name: str) -> None:
    make_exact(files.lab)
    files.lab.sql(f"DELETE FROM content.exact WHERE {name} IS NULL")
    pipeline = files.lab.add(source_table="content.exact", key=[name, "id"], batch_size=1, target_table=files.target)
    went(files, pipeline)
    files.lab.sql("UPDATE content.exact SET small = 7 WHERE id = 1; DELETE FROM content.exact WHERE id = 2")
    assert went(files, pipeline) == (1, 1)
    assert_equal(files, pipeline)


def test_a_mart_that_has_not_changed_is_not_written(files: FilesSink) -> None:
    pipeline = items(files)
    went(files, pipeline)
    before = {path: (files.folder / path).stat().st_mtime_ns for path in files.paths()}
    for mode in ({}, {"repair": True}):
        assert went(files, pipeline, **mode) == (0, 0)
    assert {path: (files.folder / path).stat().st_mtime_ns for path in files.paths()} == before


def test_a_version_is_a_folder_of_all_its_files_and_what_it_replaces_is_kept_for_its_readers(files: FilesSink) -> None:
    files.lab.configure(es_grace_seconds=3600)
    pipeline = items(files)
    went(files, pipeline)
    first = files.manifest
    files.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 2")
    went(files, pipeline)
    second = files.manifest
    assert first
    assert second
    assert first["version"] != second["version"]
    assert {path.split("/")[0] for path in second["files"]} == {second["version"]}
    assert second["rows"] == files.table.num_rows == 10
    assert all(files.get(path) for path in first["files"])
    assert [replaced["version"] for replaced in second["vitrina"]["replaced"]] == [first["version"]]
    files.lab.configure(es_grace_seconds=0)
    assert went(files, pipeline) == (0, 0)
    assert not files.unnamed
    assert files.manifest == second


def test_a_file_without_a_changed_row_is_taken_over_as_it_is(files: FilesSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are written anew; so are small ones, which become one."""
    monkeypatch.setattr(draft, "PART_BYTES", 1)
    monkeypatch.setattr(draft, "SMALL_BYTES", 0)
    pipeline = items(files, 9, batch_size=3)
    went(files, pipeline)
    before = files.manifest
    assert before
    assert len(before["files"]) == 3
    kept = {(files.folder / path).stat().st_ino for path in before["files"]}
    files.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 5")
    assert went(files, pipeline) == (1, 0)
    assert_equal(files, pipeline)
    after = files.manifest
    assert after
    assert len({(files.folder / path).stat().st_ino for path in after["files"]} & kept) == 2
    monkeypatch.undo()
    files.lab.sql("DELETE FROM content.item WHERE id = 1")
    assert went(files, pipeline) == (0, 1)
    assert_equal(files, pipeline)
    assert files.manifest
    assert len(files.manifest["files"]) == 1


@pytest.mark.parametrize("what", ["a file", "the manifest", "all of it", "a part of a file"])
def test_files_that_are_lost_are_made_anew_by_the_next_run(files: FilesSink, what: str) -> None:
    pipeline = items(files)
    went(files, pipeline)
    assert files.manifest
    path = files.folder / files.manifest["files"][0]
    if what == "a part of a file":
        path.write_bytes(path.read_bytes()[:-9])
    elif what == "all of it":
        rmtree(files.folder)
    else:
        (path if what == "a file" else files.folder / MANIFEST).unlink()
    assert went(files, pipeline) == (10, 0)
    assert_equal(files, pipeline)
    assert went(files, pipeline) == (0, 0)


@pytest.mark.parametrize("text", ["{}", "not json", '{"format": "other"}'])
def test_a_manifest_of_somebody_else_is_left_alone(files: FilesSink, text: str) -> None:
    files.folder.mkdir()
    files.put(MANIFEST, text.encode())
    assert "did not write" in failed(files, items(files))
    assert files.get(MANIFEST) == text.encode()


def test_a_warehouse_that_is_behind_its_files_makes_them_anew_once(files: FilesSink) -> None:
    """The number of the new edition is that of the one that is served."""
    pipeline = items(files)
    went(files, pipeline)
    files.lab.sql(f"DELETE FROM etl.etl_indexes; DROP TABLE etl_shadow.d_{pipeline.id.hex}_1")
    assert went(files, pipeline) == (10, 0)
    assert_equal(files, pipeline)
    made = files.manifest
    assert went(files, pipeline) == (0, 0)
    assert files.manifest == made


def test_a_folder_that_is_not_mounted_is_not_made_anew(files: FilesSink, tmp_path: Path) -> None:
    files.folder = tmp_path / "mount" / "mart"
    files.target = f"file://{files.folder}/"
    pipeline = items(files)
    went(files, pipeline)
    (tmp_path / "mount").rename(tmp_path / "elsewhere")
    assert f"folder {tmp_path}/mount is not there" in failed(files, pipeline)
    assert not (tmp_path / "mount").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "mount")
    assert went(files, pipeline) == (0, 0)


def test_what_a_killed_writer_leaves_is_removed_and_what_is_somebody_elses_is_not(files: FilesSink) -> None:
    """A manifest that was not renamed, a note that was not, parts whose note is gone already."""
    pipeline = items(files)
    went(files, pipeline)
    before = {*files.paths()}
    passing, folders = f"_passing-{'0' * 32}", [f"00000{n}-{'0' * 12}" for n in range(2, 5)]
    left = [passing, f"{folders[0]}/{passing}", f"{folders[1]}/part-{'0' * 12}.parquet"]
    others = [f"{folders[2]}/part-{'0' * 12}.parquet", f"{folders[2]}/of-somebody.parquet", "_passing-by"]
    for path in [*left, *others]:
        (files.folder / path).parent.mkdir(exist_ok=True)
        files.put(path, b"")
    files.lab.configure(lake_unused_seconds=3600)
    went(files, pipeline)
    assert {*files.paths()} == before | {*left, *others}
    files.lab.configure(lake_unused_seconds=0)
    went(files, pipeline)
    assert {*files.paths()} == before | {*others}
    assert not (files.folder / folders[0]).exists()


def test_the_checkpoint_of_an_edition_that_is_lost_half_way_hides_no_change(
    files: FilesSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was compared with the new one was not compared with the one that is served."""
    pipeline = items(files, 24, **CURSOR)
    went(files, pipeline)
    files.lab.sql("UPDATE content.item SET title = 'other', at = now() WHERE id = 1")

    def stop(place: str) -> None:
        if place == "before swap":
            raise ConfigError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(editions, "reach", stop)
        assert "stopped" in failed(files, pipeline, rebuild=True, restart=True)
    for folder in files.folder.glob("000002-*"):
        rmtree(folder)
    went(files, pipeline)
    assert_equal(files, pipeline)
    assert went(files, pipeline) == (0, 0)


def test_text_that_is_not_utf_8_is_refused() -> None:
    shape = FilesShape((Column("id", "integer"), Column("said", "text")), ("id",), ())
    with pytest.raises(ConfigError, match="text that is not UTF-8"):
        to_arrow(shape, Text(b"(,1,\xff,)\n"), shape.names, draft.schema_of(shape))


def test_a_place_that_cannot_be_read_keeps_no_other_from_being_tidied(files: FilesSink) -> None:
    files.lab.configure(es_grace_seconds=3600)
    pipeline = items(files)
    for _ in range(3):
        went(files, pipeline, rebuild=True)
    (files.folder.parent / "a file").touch()
    files.lab.sql("UPDATE etl.etl_indexes SET target = replace(target, 'mart/', 'a file/') WHERE generation = 2")
    tidy(files.lab.db, files.lab.connections.settings.model_copy(update={"es_grace_seconds": 0}))
    assert files.lab.sql("SELECT generation FROM etl.etl_indexes WHERE state = 'retired'") == [(2,)]


def test_two_pipelines_keep_no_one_mart(files: FilesSink) -> None:
    pipeline = items(files)
    went(files, pipeline)
    files.lab.sql("DELETE FROM etl.etl_pipelines")
    again = files.lab.add(source_table="content.item", key=["id"], target_table=files.target)
    assert "did not write" in failed(files, again)
    (files.folder / MANIFEST).unlink()
    assert went(files, again) == (10, 0)
    assert_equal(files, again)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("s3://bucket/marts/film_dim", "with / at its end"),
        ("s3://bucket/", "with / at its end"),
        ("s3://bucket/marts/../film_dim/", "with / at its end"),
        ("s3://bucket//film_dim/", "with / at its end"),
        ("s3:film_dim", "with / at its end"),
        ("file://srv/film_dim/", "with / at its end"),
        ("file:///other/film_dim/", "VITRINA_ALLOWED_FILES allows"),
    ],
)
def test_a_target_that_can_be_nothing_or_is_not_allowed_is_refused_when_it_is_saved(
    files: FilesSink, target: str, said: str
) -> None:
    files.lab.configure(allowed_files=["s3://bucket/*", "file:///srv/*"])
    assert said in errors_of(files, target_table=target)


def test_what_files_cannot_do_is_refused_when_it_is_saved(files: FilesSink) -> None:
    items(files)
    assert "every change writes a version of all of it" in errors_of(files, mode="live")
    assert "is for an index" in errors_of(files, adopt=True)
    assert "publish: atomic is for tables" in errors_of(files, publish="atomic")
    assert "38 digits" in errors_of(files, source_query="SELECT 1 AS id, 1::numeric(50, 2) AS n")


def test_a_plan_says_what_would_be_made(files: FilesSink) -> None:
    items(files)
    config = {"name": "m", "source_query": "SELECT id, title FROM content.item", "key": ["id"]}
    found = Validation(files.lab.connections).of(Pipeline.parse(config | {"target_table": files.target}))
    [made] = [finding for finding in found if finding.code == Code.WOULD_BE_MADE]
    assert made.data["fields"] == ["id int", "title string"]


def test_the_runner_says_how_a_folder_answers(files: FilesSink) -> None:
    files.lab.configure(allowed_files=[f"file://{files.folder}/*", "s3://*"])
    seen = look_at_sinks(files.lab.connections.settings, Neighbours())
    assert "version" in seen[f"file://{files.folder}/"]
    assert not [name for name in seen if name.startswith("s3:")]
    files.folder.mkdir(mode=0o755)
    files.folder.rmdir()
    files.folder.write_text("a file in the place of the folder")
    assert "error" in look_at_sinks(files.lab.connections.settings, Neighbours())[f"file://{files.folder}/"]


@pytest.mark.parametrize("column", ['"a.b"', '"A b"', '"é"', '"a/b=c"', '"__index_level_0__"'])
def test_columns_of_any_name(files: FilesSink, column: str) -> None:
    pipeline = items(files, source_query=f"SELECT id AS {column}, title FROM content.item", key=[column.strip('"')])
    went(files, pipeline)
    files.lab.sql("UPDATE content.item SET title = 'other' WHERE id = 1; DELETE FROM content.item WHERE id = 2")
    assert went(files, pipeline) == (1, 1)
    assert sorted(files.table["title"].to_pylist())[-1] == "other"
    assert files.table.num_rows == 9
    assert files.lab.reconcile(pipeline)["equal"]
