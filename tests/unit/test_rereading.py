"""What is remembered of how queries are read."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import sql

from vitrina.engine import rereading
from vitrina.engine.rereading import KEEP_SECONDS, Rereading
from vitrina.sql.live.recompute import Recompute, Way

CHOICE = Recompute({1: Way("outside", sql.SQL("SELECT 1").format())})


class Choices:
    """How often one was made, by a clock of its own."""

    def __init__(self) -> None:
        self.made, self.now = 0, 1000.0

    def make(self, *_: Any) -> Recompute:
        self.made += 1
        return CHOICE

    def ask(self, pipeline_id: UUID, meaning: str = "the same") -> None:
        work: Any = SimpleNamespace(job=SimpleNamespace(pipeline_id=pipeline_id))
        conn: Any = None
        Rereading.choose(work, (), meaning, conn)


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> Choices:
    choices = Choices()
    monkeypatch.setattr(rereading, "_chosen", {})
    monkeypatch.setattr(rereading, "_choose", choices.make)
    monkeypatch.setattr(rereading, "time", SimpleNamespace(monotonic=lambda: choices.now))
    return choices


def test_a_choice_holds_for_a_while(choices: Choices) -> None:
    pipeline = uuid4()
    for _ in range(3):
        choices.ask(pipeline)
    assert choices.made == 1
    choices.now += KEEP_SECONDS + 1
    choices.ask(pipeline)
    assert choices.made == 2


def test_a_query_that_means_something_else_is_chosen_for_anew(choices: Choices) -> None:
    pipeline = uuid4()
    for meaning in ("one", "two", "two"):
        choices.ask(pipeline, meaning)
    assert choices.made == 2


def test_no_more_is_remembered_than_is_used(choices: Choices) -> None:
    """However often queries change, and pipelines come and go."""
    pipeline = uuid4()
    for edit in range(100):
        choices.ask(pipeline, f"edit {edit}")
    assert len(rereading._chosen) == 1
    for _ in range(100):
        choices.now += KEEP_SECONDS / 10
        choices.ask(uuid4())
    assert len(rereading._chosen) <= 11
