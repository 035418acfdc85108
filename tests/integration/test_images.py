"""The log keeps of changed rows what the live marts need, and marts of other needs come and go."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.capturing import EAGER, logged
from tests.integration.test_live import AGGREGATE, CARD
from tests.living import Living, living
from tests.support import Lab, wait_for
from vitrina.capture.images import Images
from vitrina.meta.repos.captures import CaptureRepo

GENRES = "SELECT g.id AS film_id, g.name FROM content.genre g"
GENRE = {"content.genre": ["id"]}
RENAME = "UPDATE content.genre SET name = name || '!'"
ALL_GENRES = {"id", "name", "description", "created", "modified"}


@pytest.fixture
def wal(lab: Lab) -> Iterator[Living]:
    with living(lab, "wal") as live:
        yield live


def kept(live: Living) -> dict[str, list[str]] | None:
    return live.tip.images


def columns(live: Living, table: str) -> set[str]:
    """Of the newest change of a table."""
    newest = logged(live.lab.db, live.captured.source, live.tip.log_start - 1, [table])[-1]
    return set(json.loads(newest["new_image"]))


def comparisons(lab: Lab) -> int:
    return int(lab.value("SELECT count(*) FROM etl.etl_run_events WHERE event = 'comparing'"))


def test_the_log_keeps_what_a_mart_needs_and_no_more(wal: Living) -> None:
    wal.lab.sql(RENAME)
    wal.catch_up()
    assert columns(wal, "content.genre") == ALL_GENRES
    pipeline = wal.add(GENRES)
    wal.follow(pipeline)
    wait_for(lambda: kept(wal) == GENRE)
    wal.lab.sql(RENAME)
    wal.lab.sql("DELETE FROM content.genre WHERE id = (SELECT min(id::text)::uuid FROM content.genre)")
    wal.lab.sql("UPDATE content.film_work SET title = title || '!'")
    wal.catch_up()
    assert columns(wal, "content.film_work") == set()
    wal.follow(pipeline)
    wal.assert_equal(pipeline)
    assert comparisons(wal.lab) == 1


def test_a_mart_with_other_needs_gets_them_before_it_goes_live(wal: Living) -> None:
    first = wal.add(GENRES)
    wal.follow(first)
    wait_for(lambda: kept(wal) is not None)
    card = wal.add(CARD, name="card", target_table="analytics.card")
    votes = wal.add(AGGREGATE, name="votes", target_table="analytics.votes")
    wal.follow(first, card, votes)
    wait_for(lambda: (kept(wal) or {}).keys() >= {"content.genre_film_work", "ugc.ratings"})
    for change in (RENAME, "DELETE FROM ugc.ratings WHERE rating > 8", "DELETE FROM content.genre_film_work"):
        wal.lab.sql(change)
        wal.follow(first, card, votes)
    for pipeline in (first, card, votes):
        wal.assert_equal(pipeline)
    assert comparisons(wal.lab) == 3


def test_a_row_without_a_column_that_matters_means_a_comparison(wal: Living) -> None:
    """As if the capture had not seen in time what is needed."""
    pipeline = wal.add(CARD)
    wal.follow(pipeline)
    wait_for(lambda: kept(wal) is not None)
    wal.captured.stop()
    wal.lab.sql("UPDATE etl.etl_captures SET images = '{}'")
    wal.lab.sql("UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live,columns}', '{}')")
    wal.captured.start(EAGER)
    wal.lab.sql(RENAME)
    wal.lab.sql("UPDATE etl.etl_state SET checkpoint = jsonb_set(checkpoint, '{live,compare_after}', to_jsonb(now()))")
    wal.follow(pipeline)
    assert "is not told" in wal.why(pipeline)
    wal.assert_equal(pipeline)


def test_a_successor_keeps_what_was_kept(wal: Living) -> None:
    pipeline = wal.add(GENRES)
    wal.follow(pipeline)
    wait_for(lambda: kept(wal) is not None)
    wal.captured.stop()
    wal.captured.start(replace(EAGER, narrow=3600))
    wal.lab.sql(RENAME)
    wal.catch_up()
    assert columns(wal, "content.genre") == {"id"}


def test_triggers_leave_nothing_out(lab: Lab) -> None:
    with living(lab, "trigger") as live:
        lab.sql("UPDATE etl.etl_captures SET images = '{}'")  # whoever said so
        live.captured.stop()
        live.captured.start(EAGER)
        wait_for(lambda: kept(live) is None)
        pipeline = live.add(GENRES)
        live.follow(pipeline)
        lab.sql(RENAME)
        live.catch_up()
        assert columns(live, "content.genre") == ALL_GENRES


def test_who_goes_live_just_when_columns_are_to_be_left_out_is_seen(lab: Lab) -> None:
    """The capture says what it will keep, then looks again: here somebody has come in between."""
    wanted: list[Any] = [GENRE, GENRE, None]
    said: list[Any] = []

    class Repo(CaptureRepo):
        def needs(self, source: str) -> list[Any]:
            return [wanted.pop(0)]

        def keep_images(self, held: Any, columns: Any) -> None:
            said.append(columns)

    class Tap:
        wants: list[Any] = []  # noqa: RUF012

        def want(self, columns: Any) -> bool:
            self.wants.append(columns)
            return True

    with living(lab, "wal") as live:
        tap: Any = Tap()
        images = Images(Repo(lab.db), live.captured.capture, tap, 0)
        images.look(at_rest=False)
        assert (said, tap.wants) == ([], [])
        images.look(at_rest=True)
    assert said == [GENRE, None]
    assert tap.wants == []
