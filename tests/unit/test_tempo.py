"""How long changes gather before they are handed on."""

import pytest

from vitrina.capture.tempo import LONGEST, SOON, Tempo


@pytest.mark.parametrize(
    ("rate", "pause"), [(1, 0), (100, 0), (200, 0), (600, LONGEST / 2), (1000, LONGEST), (9000, LONGEST)]
)
def test_few_are_handed_on_at_once_and_many_together(monkeypatch: pytest.MonkeyPatch, rate: int, pause: float) -> None:
    now = 1000.0
    monkeypatch.setattr("vitrina.capture.tempo.time.monotonic", lambda: now)
    found = Tempo(_at=now)
    for _ in range(500):
        now += 0.01
        found.handed_on(rate // 100 if rate >= 100 else 0)
    assert found.pause == pytest.approx(pause, abs=LONGEST / 50)


def test_what_nobody_sees_yet_is_looked_for_again_later_each_time() -> None:
    found, pauses = Tempo(), []
    for _ in range(10):
        found.not_seen()
        pauses.append(found.pause)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (SOON, LONGEST)
    found.handed_on(1)
    assert found.pause == 0
