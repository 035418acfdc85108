"""Another kind of source, which can do no more than every kind must: describe, estimate, and give all its rows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support import Lab
from vitrina.control.services.validation import Validation
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.domain.pipeline import Pipeline
from vitrina.engine.touched import Touched
from vitrina.engine.work import Work
from vitrina.meta.db import transaction
from vitrina.planning import check_plan, make_job
from vitrina.sources import registry
from vitrina.sources.postgres.kind import POSTGRES
from vitrina.sources.source import Abilities, Address, Estimate, Kind, Source
from vitrina.sql.describe import Column
from vitrina.transforms import Row, transform
from vitrina.transforms.frames import Batch

QUERY = "SELECT id, title, seen FROM shelf.films"
COLUMNS = [Column("id", "integer"), Column("title", "text"), Column("seen", "timestamp with time zone")]
OIDS = [23, 25, 1184]
FILMS: dict[str, tuple[str, str | None]] = {}  # what the shelf holds, by id


@transform("loud_shelf")
def loud(rows: Sequence[Row]) -> list[Row]:
    return [row | {"title": row["title"].upper()} for row in rows]


@dataclass(frozen=True)
class Shelf(Source):
    """Films in memory."""

    is_lost: bool = False

    def close(self) -> None: ...

    def cancel(self) -> None: ...

    def version(self) -> str:
        return "shelf 1"

    def judge(self, select: str, *, schemas: Collection[str], functions: Collection[str] = ()) -> list[Finding]:
        return []

    def describe(self, select: str) -> list[Column]:
        return COLUMNS

    def estimate(self, select: str) -> Estimate:
        return Estimate(len(FILMS), 20)

    def rows(self, select: str, size: int) -> Iterator[Batch]:
        rows = [(id_, *film) for id_, film in FILMS.items()]
        for start in range(0, len(rows), size):
            yield Batch.of([c.name for c in COLUMNS], OIDS, rows[start : start + size])


def open_shelf(address: Address) -> Shelf:
    return Shelf(address.name, Abilities())


@pytest.fixture
def shelf(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(
        registry, "KINDS", [POSTGRES, Kind(("shelf",), Abilities(), open_shelf, lambda select, _: select)]
    )
    know(lab, "shelf:///films")
    FILMS.clear()
    FILMS.update({str(n): (f"film\t{n}\\", f"2024-01-01 00:00:{n % 60:02}+00") for n in range(1, 1001)})
    FILMS["7"] = ("no date", None)
    return lab


def know(lab: Lab, url: str) -> None:
    settings = lab.connections.settings.model_copy(update={"sources": {"shelf": SecretStr(url)}})
    lab.connections = replace(lab.connections, sources={"shelf": url}, settings=settings)


def films(lab: Lab, **config: Any) -> Pipeline:
    return lab.add(source="shelf", source_query=QUERY, key=["id"], target_table="analytics.films", **config)


def mart(lab: Lab) -> dict[str, tuple[str, str | None]]:
    rows = lab.sql("SELECT id::text, title, seen::text FROM analytics.films")
    return {id_: (title, seen) for id_, title, seen in rows}


def run(lab: Lab, pipeline: Pipeline) -> Mapping[str, Any]:
    done = lab.run(pipeline)
    assert done["error"] is None
    return done


def test_a_mart_is_loaded_and_then_kept_equal(shelf: Lab) -> None:
    pipeline = films(shelf, batch_size=100)
    assert run(shelf, pipeline)["rows_written"] == 1000
    assert mart(shelf) == FILMS
    del FILMS["3"]
    FILMS["4"], FILMS["5000"] = ("another", None), ("new", "2025-01-01 00:00:00+00")
    changed = run(shelf, pipeline)
    assert (changed["rows_written"], changed["rows_deleted"], changed["rows_unchanged"]) == (2, 1, 998)
    assert mart(shelf) == FILMS


@pytest.mark.parametrize("publish", ["batches", "atomic"])
def test_rows_go_through_transforms(shelf: Lab, publish: str) -> None:
    pipeline = films(shelf, type="PYTHON", python_task="loud_shelf", publish=publish)
    run(shelf, pipeline)
    FILMS["4"] = ("another", None)
    assert run(shelf, pipeline)["rows_written"] == 1
    assert mart(shelf) == {id_: (title.upper(), seen) for id_, (title, seen) in FILMS.items()}


def test_a_key_that_is_null_or_comes_twice_is_refused(shelf: Lab) -> None:
    pipeline = films(shelf)
    FILMS["0007"] = ("again", None)
    assert "gives a key twice" in shelf.run(pipeline)["error"]


@pytest.mark.parametrize(("mode", "lacks"), [("incremental", "SQL of Postgres"), ("live", "SQL of Postgres")])
def test_a_mode_that_needs_more_is_refused_and_told_what_else_to_do(shelf: Lab, mode: str, lacks: str) -> None:
    more = {"incremental_key": "seen"} if mode == "incremental" else {}
    pipeline = films(shelf, mode=mode, **more)
    refused = shelf.run(pipeline)
    assert "source 'shelf' cannot take statements in the" in refused["error"]
    assert lacks in refused["error"]
    assert "use mode full" in refused["remedy"]
    said = [f for f in Validation(shelf.connections).of(pipeline) if f.level == "error"]
    assert [(f.where, "cannot take statements" in f.message) for f in said] == [("mode", True)]


def test_validation_says_what_it_gives_and_that_it_is_read_at_once(shelf: Lab) -> None:
    said = " ".join(f.message for f in Validation(shelf.connections).of(films(shelf)))
    assert "gives id integer, title text" in said
    assert "about 1,000 rows, read at once" in said


def test_keys_that_somebody_names_are_converged_from_all_that_it_gives(shelf: Lab) -> None:
    pipeline = films(shelf)
    run(shelf, pipeline)
    del FILMS["1"]
    before = dict(FILMS)
    FILMS["2"] = FILMS["3"] = ("another", None)
    connections, settings = shelf.connections, shelf.connections.settings
    with connections.resolve_reader("shelf") as reader, connections.open_warehouse("test") as conn:
        plan = check_plan(pipeline, settings)
        job = make_job(pipeline.id, pipeline, plan, reader, ("id",), settings, lambda: None)
        with transaction(conn, connections.writing):
            touched = Touched(Work.prepare(job, conn))
            counts = touched.converge(["{1,2,9999}"], 3, conn)
            touched.clean_up(conn)
    assert (counts.written, counts.deleted) == (1, 1)
    assert mart(shelf) == before | {"2": ("another", None)}


def test_its_changes_cannot_be_captured(shelf: Lab) -> None:
    with pytest.raises(ConfigError, match="source 'shelf' cannot have its changes captured"):
        shelf.connections.resolve_capture("shelf")


def test_an_address_of_no_known_kind_is_refused_without_a_word_of_it(lab: Lab) -> None:
    know(lab, "carrier-pigeon://user:secret@coop")
    error = lab.run(films(lab))["error"]
    assert "no kind of source for carrier-pigeon://" in error
    assert "secret" not in error
