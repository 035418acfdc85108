"""The view `etl_followers`: who follows which log, how far, and why not; a follower itself decides the same."""

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.support import Lab
from vitrina.capture.log import tip
from vitrina.domain.positions import Gap, LivePosition

CARD = "SELECT film_id, count(*) AS votes FROM ugc.ratings GROUP BY film_id"
HERE = {"source": "warehouse", "slot": "s", "generation": 2, "id": 40, "tables": ["ugc.ratings"]}


@pytest.fixture
def followed(lab: Lab) -> Lab:
    """A log of the ids 21 to 50, of which the last change of ugc.ratings is 45."""
    lab.add(name="card", source_query=CARD, key=["film_id"], mode="live")
    lab.sql(
        "INSERT INTO etl.etl_captures (source, kind, tables, slot, installed_at, position, last_id, log_start, recent,"
        " generation, generation_reason) VALUES ('warehouse', 'wal', '{}', 's', now(), '0/0', 50, 21,"
        """ '{"ugc.ratings": 45, "content.genre": 50}', 2, 'the slot was dropped')"""
    )
    return lab


def found(lab: Lab, **position: Any) -> tuple[Any, ...]:
    lab.sql("UPDATE etl.etl_state SET checkpoint = %s", Jsonb({"live": position}))
    return tuple(lab.sql("SELECT reason, detail, backlog, concerned FROM etl.etl_followers")[0])


@pytest.mark.parametrize(
    ("at", "told"),
    [
        ({}, (None, None, 10, True)),
        ({"id": 45}, (None, None, 5, False)),
        ({"id": 50}, (None, None, 0, False)),
        ({"id": 20}, (None, None, 30, True)),
        ({"id": 19}, (Gap.OUT_OF_LOG, None, None, False)),
        ({"id": 51}, (Gap.OUT_OF_LOG, None, None, False)),
        ({"generation": 1}, (Gap.CONTINUITY_LOST, "the slot was dropped", None, False)),
        ({"slot": "another"}, (Gap.INSTALLED_ANEW, None, None, False)),
        ({"slot": "another", "generation": 1, "id": 900}, (Gap.INSTALLED_ANEW, None, None, False)),
        ({"source": "another"}, (Gap.OTHER_SOURCE, None, None, False)),
    ],
)
def test_the_view_and_a_follower_decide_the_same(followed: Lab, at: dict[str, Any], told: tuple[Any, ...]) -> None:
    assert found(followed, **HERE | at) == told
    assert tip(followed.db, "warehouse").gap(LivePosition.parse({"live": HERE | at})) == told[0]


def test_one_that_compares_says_why_and_keeps_the_log_from_where_it_will_go_on(followed: Lab) -> None:
    assert found(followed, **HERE, comparing="it was emptied") == (Gap.COMPARING, "it was emptied", 10, True)


def test_without_a_position_or_a_capture_there_is_a_reason_and_no_backlog(followed: Lab) -> None:
    query = "SELECT reason, at_id, backlog, concerned FROM etl.etl_followers"
    assert followed.sql(query) == [(Gap.NOT_LIVE, None, None, False)]
    followed.sql("UPDATE etl.etl_captures SET installed_at = NULL")
    assert followed.sql(query) == [(Gap.NOT_CAPTURED, None, None, False)]


def test_a_checkpoint_of_the_first_live_marts_is_understood(followed: Lab) -> None:
    assert found(followed, **{name: HERE[name] for name in ("source", "generation", "id")})[0] == Gap.INSTALLED_ANEW
    assert found(followed, id=7, unheard_of={"a": [1]})[0] == Gap.OTHER_SOURCE
    followed.sql('UPDATE etl.etl_state SET checkpoint = \'{"value": "7", "id": "x"}\'')
    assert followed.sql("SELECT reason FROM etl.etl_followers") == [(Gap.NOT_LIVE,)]
