"""Every pipeline over the items of the suites divided: rows that change move from part to part."""

from typing import Any

import pytest

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline
from vitrina.testing.marts import ITEMS

PARTS = ["bucket(3, id)", "truncate(7, title)", "day(at)"]  # of which none is what the key alone says


def divide(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, where nothing else is said."""
    add = Lab.add

    def divided(lab: Lab, **config: Any) -> Pipeline:
        parts = {"partition_by": PARTS} if config.get("source_query") == ITEMS else {}
        return add(lab, **(parts | config))

    monkeypatch.setattr(Lab, "add", divided)
