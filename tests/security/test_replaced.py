"""A view that is replaced while a run reads it is noticed before anything of it is committed."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import Lab
from vitrina.runner import ledger

SEEN = "CREATE OR REPLACE VIEW content.seen AS SELECT id, {} AS title FROM content.film_work"
OUTER = "CREATE OR REPLACE VIEW content.outer_view AS SELECT * FROM content.seen"
MODES: dict[str, dict[str, Any]] = {
    "full": {},
    "atomic": {"publish": "atomic"},
    "incremental": {"mode": "incremental", "incremental_key": "id", "incremental_id_key": "id"},
}


def make_views(lab: Lab) -> None:
    lab.sql(SEEN.format("title"))
    lab.sql(OUTER)
    lab.sql("GRANT SELECT ON content.seen, content.outer_view TO vitrina_reader")
    lab.sql("CREATE FUNCTION content.forged(text) RETURNS text LANGUAGE sql AS $$ SELECT 'forged ' || $1 $$")


def once(lab: Lab, statement: str) -> Callable[[str], None]:
    """Do this after the first batch that is committed."""
    done: list[str] = []

    def reach(name: str) -> None:
        if name == "after checkpoint" and not done:
            done.append(name)
            lab.sql(statement)

    return reach


@pytest.mark.parametrize("mode", MODES)
def test_a_view_that_is_replaced_in_mid_run_is_judged_before_it_is_read(
    lab: Lab, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_views(lab)
    query = "SELECT id, title FROM content.outer_view"
    pipeline = lab.add(source_query=query, key=["id"], batch_size=10, **MODES[mode])
    monkeypatch.setattr(ledger, "reach", once(lab, SEEN.format("content.forged(title)")))
    assert "content.forged is user-defined" in (lab.run(pipeline)["said"] or "")
    assert lab.value("SELECT count(*) FROM analytics.mart WHERE title LIKE 'forged%%'") == 0


def test_a_view_that_is_replaced_by_an_honest_one_costs_an_attempt(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    make_views(lab)
    pipeline = lab.add(source_query="SELECT id, title FROM content.outer_view", key=["id"], batch_size=10)
    monkeypatch.setattr(ledger, "reach", once(lab, SEEN.format("upper(title)")))
    run = lab.run(pipeline)
    assert (run["error"], run["attempt"]) == (None, 2)
    lab.assert_equal(pipeline)


def test_a_comment_on_a_table_costs_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = lab.add(source_query="SELECT id, title FROM content.film_work", key=["id"], batch_size=10)
    monkeypatch.setattr(ledger, "reach", once(lab, "ALTER TABLE content.film_work ADD COLUMN more int"))
    assert (lab.run(pipeline)["error"], lab.last_run(pipeline)["attempt"]) == (None, 1)
