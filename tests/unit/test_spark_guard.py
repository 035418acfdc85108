"""What Spark's guard makes of words and plans; what engines make of the same texts is in integrations/."""

import pytest

from tests.corpora import corpus
from vitrina.sources.spark.guard import judge

PLAN = "== Analyzed Logical Plan ==\nlastCommand: int\n+- Project [lastCommand#1, 'Execute DropTableCommand']\n"
HONEST = (
    "SELECT id, json.title FROM docs AS json JOIN x ON json.id = x.id",
    "WITH t (id) AS (SELECT 1), u AS (SELECT 2) SELECT id FROM t, u",
    "SELECT * FROM films TABLESAMPLE (50 PERCENT) REPEATABLE (7)",
    "SELECT a.current_user, `session_user`, a.user FROM a",
    "SELECT extract(YEAR FROM day), substring(text.name, 1, 2) FROM text",
)
BY_WORDS = ("options of a table", "path unquoted", "a file as a table", "without parentheses", "a sample")


def errors(select: str, plan: str = PLAN) -> list[str]:
    return [str(f) for f in judge(select, plan, ()) if f.level == "error"]


@pytest.mark.parametrize("select", HONEST)
def test_what_is_honest_passes(select: str) -> None:
    assert errors(select) == []


@pytest.mark.parametrize(
    "text", [t for t in corpus("hostile_spark") if any(w in t.name for w in BY_WORDS)], ids=lambda text: text.name
)
def test_words_are_enough_to_refuse_it(text: object) -> None:
    """No engine has to know a setting for it."""
    assert errors(text.query, "") != []  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", ["InsertIntoStatement x", "+- Execute DropTableCommand", ":  +- 'CreateViewCommand a"])
def test_a_plan_that_does_something_is_refused(line: str) -> None:
    assert "do more than read" in "".join(errors("SELECT 1 AS id", f"{PLAN}{line}\n"))


def test_who_asks_is_seen_in_the_plan() -> None:
    """`user` is a column wherever there is one of that name; only the plan tells."""
    assert errors("SELECT user AS id", "Project [current_user() AS id#1]") != []
