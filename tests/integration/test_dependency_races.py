"""DDL that races changes of rows: no slice is applied by the verdict of another catalogue."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.catalogue import CASES, NAMES, OURS, REPLACE, SETUP
from tests.integration.test_dependencies import ALLOWED, LOUDER, SHOUTED, assert_equal_for_the_reader, at_rest
from tests.living import Living, living, living_elsewhere
from tests.support import Lab
from vitrina.engine.full import FullMode
from vitrina.engine.live import watch
from vitrina.engine.live.follower import Follower
from vitrina.engine.live.impact import Impact
from vitrina.engine.touched import Touched

LOUD = REPLACE.format("shout(t text) RETURNS text", "t || '!'")
PLACES = {
    "before keys are told": (Impact, "keys_of", True),
    "between keys and rows": (Touched, "converge", True),
    "after keys were told": (Impact, "few_keys", False),
    "before the comparison": (FullMode, "run", True),
}
RACED = [
    *(("a function", place) for place in PLACES),
    *(("a view", place) for place in PLACES),
    *((name, "between keys and rows") for name in ("a label of a text", "a label in a row", "a policy changed")),
    ("row-level security enabled", "before keys are told"),
]


SETTINGS = {"allowed_functions": OURS, "dependency_seconds": 0, "max_delete_share": 1}


@pytest.fixture
def live(lab: Lab) -> Iterator[Living]:
    lab.configure(**SETTINGS)
    lab.sql(SETUP)
    with living(lab, "trigger", NAMES) as live:
        yield live


@pytest.fixture
def elsewhere(lab: Lab) -> Iterator[Living]:
    lab.configure(**SETTINGS)
    with living_elsewhere(lab, "trigger", NAMES, SETUP) as live:
        yield live


def once(patch: pytest.MonkeyPatch, place: tuple[Any, str, bool], act: Callable[[], object]) -> None:
    """Do it the first time that a run gets there: before that place, or after it."""
    target, name, before = place
    real, done = getattr(target, name), list[bool]()

    def wrapped(*args: Any, **more: Any) -> Any:
        if before and not done:
            done.append(True)
            act()
        result = real(*args, **more)
        if not before and not done:
            done.append(True)
            act()
        return result

    patch.setattr(target, name, wrapped)


@pytest.mark.parametrize(("name", "place"), RACED)
def test_ddl_amid_a_slice_means_a_comparison(
    live: Living, monkeypatch: pytest.MonkeyPatch, name: str, place: str
) -> None:
    race(live, monkeypatch, name, place)


def test_a_source_elsewhere_is_raced_too(elsewhere: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    race(elsewhere, monkeypatch, "a view", "between keys and rows")


def race(live: Living, patch: pytest.MonkeyPatch, name: str, place: str) -> None:
    case = CASES[name]
    pipeline = live.add(case.select, ["id"])
    live.follow(pipeline)
    change = "UPDATE content.song SET title = title || '.' WHERE id = 5; UPDATE content.album SET name = name || '.'"
    live.captured.run(change)
    live.catch_up()
    if place == "before the comparison":
        live.lab.sql("UPDATE etl.etl_captures SET generation = generation + 1")
    once(patch, PLACES[place], lambda: live.captured.run(case.ddl))
    at_rest(live)
    assert live.lab.last_run(pipeline)["error"] is None
    assert_equal_for_the_reader(live, pipeline)
    assert case.said in live.why(pipeline)


def test_a_null_that_comes_with_the_ddl_that_allows_it(live: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = live.add(ALLOWED, ["id"])
    live.follow(pipeline)
    live.captured.run("DELETE FROM content.banned WHERE song = 2")
    live.catch_up()
    ddl = "ALTER TABLE content.banned ALTER song DROP NOT NULL; INSERT INTO content.banned VALUES (NULL)"
    once(monkeypatch, PLACES["between keys and rows"], lambda: live.captured.run(ddl))
    at_rest(live)
    assert "the query gives no rows at all" in live.lab.last_run(pipeline)["said"]
    live.follow(pipeline, allow_deletes=True)
    assert live.lab.value("SELECT count(*) FROM analytics.mart") == 0


def there_and_back(live: Living, patch: pytest.MonkeyPatch) -> None:
    """A function is another one while a slice is read, and back before anybody looks."""
    once(patch, (Touched, "converge", True), lambda: live.captured.run(LOUDER))
    once(patch, (Touched, "converge", False), lambda: live.captured.run(LOUD))


def test_what_was_changed_and_changed_back_while_rows_were_read_is_noticed(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = live.add(SHOUTED, ["id"])
    live.follow(pipeline)
    live.captured.run("UPDATE content.song SET title = title || '.' WHERE id = 5")
    there_and_back(live, monkeypatch)
    live.follow(pipeline)
    assert live.why(pipeline) == watch.AMID
    live.assert_equal(pipeline)


def test_without_the_second_look_it_stays_wrong(live: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Follower, "_distrust", lambda *_: None)
    pipeline = live.add(SHOUTED, ["id"])
    live.follow(pipeline)
    live.captured.run("UPDATE content.song SET title = title || '.' WHERE id = 5")
    there_and_back(live, monkeypatch)
    live.follow(pipeline)
    at_rest(live)
    with pytest.raises(AssertionError):
        live.assert_equal(pipeline)


def test_many_keys_are_given_up_amid_a_slice_and_leave_nothing_behind(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = live.add(SHOUTED, ["id"], batch_size=2)
    live.follow(pipeline)
    live.captured.run("UPDATE content.song SET title = title || '.'")
    live.catch_up()
    once(monkeypatch, PLACES["between keys and rows"], lambda: live.captured.run(LOUDER))
    at_rest(live)
    assert live.why(pipeline) == "the function content.shout was replaced"
    live.assert_equal(pipeline)
    assert live.lab.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'etl_stage'") == []


def test_rows_and_ddl_of_one_transaction(live: Living) -> None:
    pipeline = live.add("SELECT id, title FROM content.shown", ["id"])
    live.follow(pipeline)
    with live.captured.conn.transaction():
        live.captured.run("UPDATE content.song SET title = title || '.' WHERE id IN (1, 5)", CASES["a view"].ddl)
        live.captured.run("INSERT INTO content.song VALUES (20, 'new', 'calm', 1)")
    live.follow(pipeline)
    live.assert_equal(pipeline)


def test_a_grant_between_two_slices_means_no_comparison(live: Living) -> None:
    pipeline = live.add(SHOUTED, ["id"])
    live.follow(pipeline)
    live.captured.run("GRANT SELECT ON content.song TO vitrina_capture")
    live.captured.run("UPDATE content.song SET title = title || '.' WHERE id = 5")
    live.follow(pipeline)
    assert live.why(pipeline) == ""
    live.assert_equal(pipeline)


def test_a_repair_under_another_catalogue_does_not_stay(live: Living) -> None:
    pipeline = live.add(SHOUTED, ["id"], schedule_interval="1d")
    live.follow(pipeline)
    live.captured.run(LOUDER)
    assert live.lab.run(pipeline, repair=True)["rows_written"] == 9
    live.captured.run(LOUD)
    live.follow(pipeline)
    assert live.why(pipeline) == "the function content.shout was replaced"
    live.assert_equal(pipeline)


def test_ddl_between_the_look_and_the_verdict_is_not_taken_for_what_was_kept(
    live: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function depends on another one now, so that there is more to look at, and that look finds it so."""
    pipeline = live.add("SELECT id, content.atomic(title) AS title FROM content.song", ["id"])
    live.follow(pipeline)
    live.captured.run("UPDATE content.song SET title = title || '.' WHERE id = 5")
    live.catch_up()
    ddl = "CREATE OR REPLACE FUNCTION content.atomic(t text) RETURNS text IMMUTABLE"
    ddl += " BEGIN ATOMIC SELECT content.shout(t); END"
    once(monkeypatch, (Impact, "of", True), lambda: live.captured.run(ddl))
    at_rest(live)
    assert live.why(pipeline) == "the function content.atomic was replaced"
    live.assert_equal(pipeline)
