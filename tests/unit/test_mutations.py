"""Each guard that `make mutations` takes out is where it says, and the tests that should notice exist."""

import json
import shutil
from pathlib import Path

import pytest

from tests.named import named_tests
from tools.mutations.guards import GUARDS, ROOT, Guard

KEPT = json.loads((ROOT / "docs" / "mutations.json").read_text())


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_can_be_taken_out(guard: Guard, tmp_path: Path) -> None:
    original = ROOT / "src" / "vitrina" / guard.file
    copy = tmp_path / guard.file
    copy.parent.mkdir(parents=True)
    shutil.copy(original, copy)
    guard.remove(tmp_path)
    assert copy.read_text() != original.read_text()
    with pytest.raises(ValueError, match="0 times"):
        guard.remove(tmp_path)


def test_the_tests_that_should_notice_exist() -> None:
    assert {test.partition("[")[0] for guard in GUARDS for test in guard.tests} <= named_tests()


def test_every_guard_was_caught_when_last_tried() -> None:
    assert [row["guard"] for row in KEPT] == [guard.name for guard in GUARDS]
    assert [row["guard"] for row in KEPT if not row["caught_by"]] == []
