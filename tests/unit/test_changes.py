"""What has to change, computed from files and store."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from vitrina.cli.changes import Edits, compare, parse_all
from vitrina.client import ClientError
from vitrina.control.services.plans import text_diff
from vitrina.domain.pipeline import Pipeline
from vitrina.files import Document


def values(name: str, target: str = "", **more: Any) -> dict[str, Any]:
    """A pipeline."""
    return {"name": name, "source_query": "SELECT 1 AS id", "target_table": target or f"analytics.{name}"} | more


def stored(name: str, target: str = "", status: str = "IDLE", **more: Any) -> dict[str, Any]:
    """As the API answers."""
    pipeline = Pipeline.parse(values(name, target, **more))
    config = pipeline.model_dump(mode="json")
    return {"id": config["id"], "name": name, "status": status, "version": 1, "config": config,
            "target": pipeline.target_table}  # fmt: skip


def changes(files: list[dict[str, Any]], rows: list[dict[str, Any]], prune: bool = False) -> Edits:
    """Between these."""
    return compare(parse_all([Document(Path(f"{v['name']}.yaml"), v) for v in files]), rows, prune=prune)


def test_a_chain_of_moves_is_put_in_order() -> None:
    rows = [stored("a", "analytics.one"), stored("b", "analytics.two")]
    found = changes([values("a", "analytics.two"), values("b", "analytics.three")], rows)
    assert [change.name for change in found.changes] == ["b", "a"]
    assert found.errors == []


def test_a_swap_is_refused_before_anything_is_done() -> None:
    rows = [stored("a", "analytics.one"), stored("b", "analytics.two")]
    found = changes([values("a", "analytics.two"), values("b", "analytics.one")], rows)
    assert len(found.errors) == 2


def test_a_create_may_take_what_a_move_leaves() -> None:
    found = changes([values("new", "analytics.a"), values("a", "analytics.b")], [stored("a")])
    assert [(change.action, change.name) for change in found.changes] == [("update", "a"), ("create", "new")]


def test_running_pipelines_keep_what_a_run_depends_on() -> None:
    found = changes([values("a", batch_size=7)], [stored("a", status="RUNNING"), stored("b", status="RUNNING")], True)
    assert [error["message"] for error in found.errors] == ["it cannot be deleted while it is RUNNING"]


def test_another_id_under_the_same_name_is_refused() -> None:
    with pytest.raises(ClientError, match="with another id"):
        changes([values("a", id=str(uuid4()))], [stored("a")])


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (1, 2, ["1 → 2"]),
        (None, "1h", ["(none) → 1h"]),
        (["a"], ["a", "b"], ["[a] → [a, b]"]),
        ("a\nb\n", "a\nc\n", [" a", "-b", "+c"]),
        ([], [{"order_index": 1}], ["-[]", "+- {order_index: 1}"]),
    ],
)
def test_differences_read_well(old: Any, new: Any, lines: list[str]) -> None:
    assert text_diff(old, new) == lines
