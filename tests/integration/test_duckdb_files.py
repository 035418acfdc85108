"""Files and folders as they are found: each row is read exactly once and exactly, or the table is refused."""

import multiprocessing
import os
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lakes import write_lake
from vitrina.domain.errors import ConfigError
from vitrina.settings import Settings
from vitrina.sources.duckdb.kind import DUCKDB
from vitrina.sources.duckdb.reader import DuckReader
from vitrina.sources.source import Address


@pytest.fixture(autouse=True)
def spills(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A TMPDIR of its own."""
    folder = tmp_path_factory.mktemp("tmp")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def reader_of(url: str) -> DuckReader:
    found = DUCKDB.open(Address("lake", url, False, {}, Settings()))
    assert isinstance(found, DuckReader)
    return found


def written(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def read(folder: Path, select: str) -> list[list[bytes]]:
    with closing(reader_of(f"duckdb://{folder}/")) as reader:
        assert not [f for f in reader.judge(select, schemas=()) if f.level == "error"]
        return [line.split(b"\t") for batch in reader.rows(select, 100) for line in batch.text.splitlines()]


INT, BIG, DOUBLE = pa.array([1], pa.int32()), pa.array([2], pa.int64()), pa.array([1.7])
MOMENT = pa.array([0], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (BIG, DOUBLE, "column x is BIGINT in .*a.parquet, and DOUBLE in .*b.parquet"),
        (MOMENT, MOMENT.cast(pa.timestamp("us", "UTC")), "column x is TIMESTAMP in .*, and TIMESTAMP WITH TIME ZONE"),
        (INT, pa.array(["1"]), "column x is INTEGER in .*, and VARCHAR"),
        (pa.array([{"a": 1}]), pa.array([{"a": 1, "x": 2}]), "column x is STRUCT"),
        (pa.array([[1]]), pa.array([[1.5]]), "column x is BIGINT.*, and DOUBLE"),
    ],
)
def test_a_column_of_other_types_in_other_files_is_refused(tmp_path: Path, first: Any, second: Any, says: str) -> None:
    written(tmp_path / "s/t/a.parquet", id=INT, x=first)
    written(tmp_path / "s/t/b.parquet", x=second, id=INT)
    with pytest.raises(ConfigError, match=says):
        read(tmp_path, "SELECT * FROM s.t")


def test_a_table_that_is_refused_is_listed_as_what_cannot_be_read(tmp_path: Path) -> None:
    written(tmp_path / "s/t/a.parquet", x=BIG)
    written(tmp_path / "s/t/b.parquet", x=DOUBLE)
    written(tmp_path / "s/u/a.parquet", x=DOUBLE)
    with closing(reader_of(f"duckdb://{tmp_path}/")) as reader:
        told = {table["name"]: table["readable"] for table in reader.tables((), 10).tables}
    assert told == {"t": False, "u": True}


def test_columns_are_found_by_name_and_those_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    written(tmp_path / "s/t/a.parquet", id=INT)
    written(tmp_path / "s/t/b.parquet", y=pa.array(["more"]), id=pa.array([2**40]))
    assert read(tmp_path, "SELECT id, y FROM s.t ORDER BY id") == [[b"1", b"\\N"], [str(2**40).encode(), b"more"]]


def test_folders_say_the_values_of_a_partition(tmp_path: Path) -> None:
    written(tmp_path / "s/t/y=1/a.parquet", x=INT)
    written(tmp_path / "s/t/y=2/a.parquet", x=INT)
    assert read(tmp_path, "SELECT x, y FROM s.t ORDER BY y") == [[b"1", b"1"], [b"1", b"2"]]


def test_what_writers_keep_for_themselves_is_no_row(tmp_path: Path) -> None:
    for name in ("a", "_temporary/b", ".staging/c", "deep/_d", "deep/.e", "deep/f"):
        written(tmp_path / f"s/t/{name}.parquet", x=INT)
    assert read(tmp_path, "SELECT count(*) FROM s.t") == [[b"2"]]


@pytest.mark.parametrize("name", ["t[12]", "t*", "t?", "t]", "t\\", "t'", 't"', "{t,t1}", "[!x]1"])
def test_a_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    for table, value in (("t1", 1), ("t2", 2), (name, 3)):
        written(tmp_path / f"s/{table}.parquet", x=[value])
        written(tmp_path / f"f{name}/{table}/a.parquet", x=[value])
    assert read(tmp_path, f"SELECT x FROM s.{quoted}") == [[b"3"]]
    assert read(tmp_path, f'SELECT x FROM "f{quoted[1:]}.{quoted}') == [[b"3"]]


def test_two_tables_whose_names_differ_in_case_are_not_taken_for_one(tmp_path: Path) -> None:
    written(tmp_path / "s/films.parquet", x=[1])
    written(tmp_path / "s/Films.parquet", x=[2])
    assert read(tmp_path, "SELECT x FROM s.Films") == [[b"2"]]
    with pytest.raises(ConfigError, match=r"s\.Films and s\.films differ in nothing but case"):
        read(tmp_path, "SELECT a.x, b.x FROM s.films AS a, s.Films AS b")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_query_that_is_nested_too_deeply_is_refused(tmp_path: Path, kind: str) -> None:
    lake = write_lake(tmp_path / "lake.duckdb") if kind == "file" else f"{tmp_path}/"
    select = "SELECT " + " + ".join(["1"] * 900) + " AS x"
    with closing(reader_of(f"duckdb://{lake}")) as reader, pytest.raises(ConfigError, match="nested too deeply"):
        reader.judge(select, schemas=())
    with pytest.raises(ConfigError, match="nested too deeply"):
        DUCKDB.tables(select)


def test_a_file_that_is_no_database_is_not_waited_for_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "clocks.duckdb").write_text("no database" * 1000)
    with pytest.raises(ConfigError, match="cannot be read"):
        reader_of(f"duckdb://{tmp_path}/clocks.duckdb")


def test_the_database_file_itself_may_be_read_as_a_file_and_none_beside_it(tmp_path: Path) -> None:
    lake = write_lake(tmp_path / "lake.duckdb")
    (tmp_path / "beside.csv").write_text("a\n1\n")
    with closing(reader_of(f"duckdb://{lake}")) as reader:
        assert reader.shape(f"SELECT size FROM read_blob('{lake}')").columns
        with pytest.raises(ConfigError, match="may not read that"):
            reader.shape(f"SELECT * FROM read_csv('{tmp_path}/beside.csv')")


def open_and_die(url: str) -> None:
    reader_of(url)
    os._exit(0)


def test_what_killed_processes_put_aside_is_swept_and_what_others_use_is_not(tmp_path: Path, spills: Path) -> None:
    """Whatever number a process has: another container's are not seen here."""
    url = f"duckdb://{write_lake(tmp_path / 'lake.duckdb')}"
    (spills / "vitrina-duckdb-999999999-x").mkdir()
    died = multiprocessing.get_context("fork").Process(target=open_and_die, args=(url,))
    died.start()
    died.join()
    [left] = spills.iterdir()  # of the one that died; what was there before it has swept
    with closing(reader_of(url)) as first:
        [used] = spills.iterdir()
        assert used != left
        with closing(reader_of(url)):
            assert used in spills.iterdir()
        assert first.version()
    assert list(spills.iterdir()) == []


@pytest.mark.parametrize(
    "value", ["TIMESTAMP '290000-01-01'", "DATE '0044-03-15 (BC)'", "TIMESTAMPTZ '0044-03-15 (BC)'", "TIME '24:00:00'"]
)
@pytest.mark.parametrize("other", ["NULL", "'infinity'"])
def test_a_moment_that_has_no_text_is_refused_by_its_column(tmp_path: Path, value: str, other: str) -> None:
    type_ = value.partition(" ")[0]
    among = f"SELECT {value} AS at UNION ALL SELECT {'NULL' if type_ == 'TIME' else f'CAST({other} AS {type_})'}"
    with closing(reader_of(f"duckdb://{tmp_path}/")) as reader:
        for select in (among, f"SELECT [{value}] AS at")[: 1 if type_ == "TIMESTAMPTZ" else 2]:  # those are documents
            with pytest.raises(ConfigError, match="column at has a "):
                list(reader.rows(select, 10))
