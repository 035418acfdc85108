"""Preview: the first rows of a query and what transforms make of them; nothing is written."""

from typing import Any

import pytest

from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.inquiries import preview

FILMS = "SELECT f.id AS film_id, f.title, f.creation_date FROM content.film_work f ORDER BY f.id"
TASKS = [
    {"order_index": 1, "task_type": "SQL", "body": FILMS},
    {"order_index": 2, "task_type": "PYTHON", "body": "normalise_title"},
    {"order_index": 3, "task_type": "PYTHON", "body": "add_decade"},
]


def show(lab: Lab, **params: Any) -> dict[str, Any]:
    """The answer about a configuration that is not saved."""
    row = lab.answer("preview", None, **params)
    assert row["error"] is None
    return dict(row["result"])


def refused(lab: Lab, **params: Any) -> str:
    """The error instead."""
    row = lab.answer("preview", None, **params)
    assert row["status"] == "FAILED"
    return str(row["said"])


def values(lab: Lab, select: str) -> dict[str, Any]:
    """The first row of a query, as it is shown."""
    config = {"name": "x", "target_table": "analytics.x", "source_query": select}
    return dict(show(lab, pipeline=config)["rows"][0])


def test_the_first_rows_of_a_stored_pipeline(lab: Lab) -> None:
    pipeline = lab.add(source_query=FILMS, key=["film_id"])
    row = lab.answer("preview", pipeline, limit=3)
    result = row["result"]
    assert (row["status"], len(result["rows"]), result["more"]) == ("DONE", 3, True)
    assert result["columns"][0] == {"name": "film_id", "type": "uuid"}
    first = lab.sql("SELECT id::text, title FROM content.film_work ORDER BY id")[0]
    assert (result["rows"][0]["film_id"], result["rows"][0]["title"]) == first
    assert lab.status(pipeline) == "IDLE"
    assert lab.value("SELECT to_regclass('analytics.mart')") is None


def test_rows_after_each_transform(lab: Lab) -> None:
    lab.sql("UPDATE content.film_work SET title = '  ' || title, creation_date = '1994-05-05'")
    result = lab.answer("preview", lab.add(tasks=TASKS, key=["film_id"]), limit=2)["result"]
    assert [(step["type"], step["name"]) for step in result["steps"]] == [
        ("SQL", "query"),
        ("PYTHON", "normalise_title"),
        ("PYTHON", "add_decade"),
    ]
    raw, trimmed, last = (step["rows"][0] for step in result["steps"])
    assert raw["title"].startswith("  ")
    assert trimmed["title"] == raw["title"].strip()
    assert (last["decade"], last["creation_date"]) == (1990, "1994-05-05")
    assert result["columns"][-1] == {"name": "decade", "type": "integer"}
    assert result["rows"] == result["steps"][-1]["rows"]


def test_a_configuration_that_is_not_saved(lab: Lab) -> None:
    config = {"name": "draft", "target_table": "analytics.draft", "tasks": TASKS, "key": ["film_id"]}
    assert len(show(lab, pipeline=config, limit=5)["steps"][0]["rows"]) == 5
    assert lab.value("SELECT count(*) FROM etl.etl_pipelines") == 0


def test_values_are_safe_in_json(lab: Lab) -> None:
    shown = values(
        lab,
        "SELECT 1.50 AS exact, 0.1234567890123456789 AS finer, 'NaN'::float8 AS nan, true AS yes, NULL::int AS nothing,"
        " ARRAY[1, 2] AS numbers, '{\"a\": [1]}'::jsonb AS doc, '\\x00ff'::bytea AS bytes,"
        " repeat('x', 3000) AS long",
    )
    assert (shown["exact"], shown["finer"], shown["nan"]) == (1.5, "0.1234567890123456789", "nan")
    assert (shown["yes"], shown["nothing"], shown["numbers"]) == (True, None, [1, 2])
    assert (shown["doc"], shown["bytes"]) == ({"a": [1]}, "\\x00ff")
    assert shown["long"].endswith("… (3000 characters)")


def test_what_python_cannot_hold_is_shown_as_text(lab: Lab) -> None:
    assert values(lab, "SELECT 'infinity'::date AS day, 1 AS one") == {"day": "infinity", "one": "1"}


def test_a_query_that_takes_too_long_is_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "TIMEOUT_SECONDS", 0.2)
    query = "SELECT count(*) AS n FROM generate_series(1, 100000) a, generate_series(1, 100000) b"
    error = refused(lab, pipeline={"name": "x", "target_table": "analytics.x", "source_query": query})
    assert "did not give its first rows within" in error


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"source_query": "DELETE FROM content.film_work"}, "must be a SELECT"),
        ({"source_query": "SELECT * FROM etl.etl_tokens"}, "schema etl is not allowed"),
        ({"source_query": "SELECT pg_sleep(1) AS x"}, "the query is refused"),
        ({"source_query": "SELECT nonsense FROM content.film_work"}, 'column "nonsense" does not exist'),
        ({"source_query": "SELECT 1/0 AS x"}, "division by zero"),
        ({"source_query": FILMS, "batch_size": 0}, "batch_size"),
        ({"source_query": FILMS, "source": "moon"}, "there is no source 'moon'"),
        ({"source_query": FILMS, "type": "PYTHON", "python_task": "no_such", "key": ["film_id"]}, "no transform"),
        ({"source_query": FILMS, "type": "PYTHON", "python_task": "add_decade"}, "names no key"),
    ],
)
def test_a_wrong_configuration_fails_with_the_message(lab: Lab, config: dict[str, Any], said: str) -> None:
    assert said in refused(lab, pipeline={"name": "x", "target_table": "analytics.x"} | config)


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": 201}, {"limits": 3}, {}])
def test_wrong_parameters_fail_with_the_message(lab: Lab, params: dict[str, Any]) -> None:
    assert refused(lab, **params)


def test_reconcile_needs_a_stored_pipeline(lab: Lab) -> None:
    with pytest.raises(ConfigError):
        lab.ask("reconcile", None)
