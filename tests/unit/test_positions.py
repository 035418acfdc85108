"""Positions and checkpoints: what earlier programs have stored is understood, and what is stored now is as it was."""

import json
from dataclasses import replace
from typing import Any

import pytest

from vitrina.control.console.i18n import Words
from vitrina.domain.errors import ConfigError
from vitrina.domain.positions import FullPosition, IncrementalPosition, LivePosition, Place, parse_position
from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because

AT = "2026-11-18T13:40:27.150477+00:00"
STORED: list[tuple[str, dict[str, Any]]] = [
    ("full", {"phase": "converge", "done": 10, "of": 20}),
    ("full", {"phase": "load"}),
    ("incremental", {"value": "2020-01-04 00:00:00+00", "id": "7", "bound": "2020-01-05 00:00:00+00"}),
    (
        "incremental",
        {
            "comparing": "the source was set back",
            "candidate": {"bound": None, "seen_at": AT},
            "place": {"database": 16384, "system": "7", "timeline": 1, "lsn": "1/A0", "clock": AT, "here": AT}
            | {"set_back": 0},
        },
    ),
    (
        "live",
        {
            "live": {"source": "warehouse", "slot": "s", "generation": 2, "id": 500, "tables": ["ugc.ratings"]}
            | {"columns": {"ugc.ratings": ["film_id"]}, "meaning": "abc", "depends": "def", "rate": 12.5}
            | {"compare_after": AT, "compare_seconds": 0.123, "seen": {"id": 4, "at": AT}, "not_before": AT}
            | {"mart": {"file": "f", "filled": True}, "lag_ms": 3.5, "committed_at": AT, "applied_at": AT}
            | {"unseen_from": AT, "unseen_until": AT},
        },
    ),
    ("live", {"live": {"source": "w", "slot": "s", "generation": 1, "id": 0, "tables": [], "meaning": "m"}}),
]


@pytest.mark.parametrize(("mode", "stored"), STORED)
def test_a_checkpoint_is_stored_again_as_it_was(mode: str, stored: dict[str, Any]) -> None:
    position = parse_position(mode, stored)
    assert position is not None
    assert position.dump() == stored


@pytest.mark.parametrize(("mode", "stored"), STORED)
def test_a_key_that_nobody_knows_is_passed_over(mode: str, stored: dict[str, Any]) -> None:
    later = stored | {"later": 1}
    later |= {"live": stored["live"] | {"later": {"a": 1}}} if mode == "live" else {}
    assert parse_position(mode, later) == parse_position(mode, stored)


def test_what_was_not_kept_yet_is_not_known() -> None:
    bare = IncrementalPosition.parse({"value": "7", "id": "x", "bound": None, "place": {"database": 5, "clock": AT}})
    assert (bare.cursor, bare.bound, bare.candidate) == (("7", "x"), None, None)
    assert (bare.place or Place()).system is None
    live = LivePosition.parse({"live": {"source": "w", "slot": "s", "generation": 1, "id": 7, "mart": {}}})
    assert (live.columns, live.depends, live.comparing, live.mart and live.mart.file) == (None, None, None, "")


@pytest.mark.parametrize("mode", ["full", "incremental", "live"])
@pytest.mark.parametrize("stored", [None, {}])
def test_no_checkpoint_is_no_position(mode: str, stored: dict[str, Any] | None) -> None:
    assert parse_position(mode, stored) is None


def test_what_cannot_be_read_is_said_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        parse_position("live", {"live": {"id": "far"}})
    assert "--restart" in (caught.value.remedy or "")


def test_how_far_a_large_slice_is_stands_beside_the_position() -> None:
    position = LivePosition("w", "s", 1, 7)
    assert replace(position, done=3, of=4).dump() == position.dump() | {"done": 3, "of": 4}
    assert LivePosition.parse(replace(position, done=3, of=4).dump()) == position


def test_what_arrives_later_is_later() -> None:
    assert LivePosition(lag_ms=3.0).later(0.5).lag_ms == 503
    assert LivePosition().later(0.5) == LivePosition()
    assert FullPosition("load").later(0.5) == FullPosition("load")


VIEW = Reason.A_VIEW.of(name="content.films")
WHY = Reason.CHANGED.of(changes=[Reason.REPLACED.of(thing=VIEW), Reason.CASTS_CHANGED.of()])
SAID = "заменено: представление content.films; созданы или удалены приведения типов"


@pytest.mark.parametrize(("mode", "kind"), [("live", LivePosition), ("incremental", IncrementalPosition)])
def test_why_everything_is_compared_is_kept_by_its_code_beside_its_words(mode: str, kind: type[Any]) -> None:
    stored = kind(comparing=WHY).dump()
    inner: dict[str, Any] = stored["live"] if mode == "live" else stored
    assert inner["comparing"] == "the view content.films was replaced; casts were made or dropped"
    assert inner["because"]["code"] == "changed"
    again = parse_position(mode, json.loads(json.dumps(stored)))
    assert isinstance(again, LivePosition | IncrementalPosition)
    assert isinstance(again.comparing, Because)
    assert again.comparing.said_in(Words("ru")) == SAID
    assert again.dump() == stored


def test_a_reason_that_this_program_does_not_know_keeps_its_words() -> None:
    stored = {"comparing": "something new", "because": {"code": "to_come", "data": {}}}
    assert IncrementalPosition.parse(stored).comparing == "something new"
    assert "because" not in replace(IncrementalPosition.parse(stored), comparing=None).dump()
