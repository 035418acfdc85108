"""The page about benchmarks and its charts say what `bench/results.json` says."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from bench import page, quick
from bench.__main__ import PARTS
from bench.chart import MOST, needed
from bench.guard import judge
from bench.report import RESULTS, Report, Target, keep

ROOT = Path(__file__).parents[2]
RESULT = json.loads(RESULTS.read_text())
REPORT = Report("Ways", ["work", "s"], [["load", "2.00"]], [Target.at_most("load", 2, 1)], {"load": 2}, {"made": "1"})


def test_page_and_charts_are_what_the_results_give() -> None:
    for name, text in page.documents(RESULT).items():
        assert (ROOT / name).read_text() == text, f"{name} is old: run make bench-page"


def test_the_chart_of_targets_shows_each_with_its_figures() -> None:
    shown = _texts(page.TARGETS)
    for target in RESULT["targets"]:
        assert target["name"] in shown
        assert any(text.startswith(f"{target['value']:g}, wanted ") for text in shown)


def test_the_chart_of_speed_shows_each_way_as_times_the_floor() -> None:
    shown = _texts(page.SPEED)
    for compared in (c for part in RESULT["parts"].values() for c in part["compared"]):
        floor = compared["seconds"]["floor"]
        for seconds in (s for way, s in compared["seconds"].items() if way != "floor"):
            assert f"{seconds / floor:.2f} × the floor, {seconds:.2f} s" in shown


def test_a_target_is_met_exactly_when_it_needs_no_more_than_is_allowed() -> None:
    targets = [
        Target.at_most("a", 2, 1),
        Target.at_most("b", 1, 1),
        Target.at_most("c", 0, 0),
        Target.at_most("d", 1, 0),
    ]
    targets += [Target.at_least("e", 3, 4), Target.at_least("f", 5, 4), Target.at_least("g", 0, 4)]
    found = [needed({"value": t.value, "target": t.wanted, "better": t.better}) for t in targets]
    assert [share <= 1 for share in found] == [t.met for t in targets]
    assert found[3] == found[6] == MOST


def test_a_part_that_is_measured_again_replaces_only_itself(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    keep({"other": REPORT, "one": REPORT}, "full", ["one", "other"], results)
    better = replace(REPORT, targets=[Target.at_most("load", 0.5, 1)])
    keep({"one": better}, "small", ["one", "other"], results)
    known = json.loads(results.read_text())
    assert [(t["part"], t["value"], t["met"]) for t in known["targets"]] == [("one", 0.5, True), ("other", 2, False)]
    assert [part["scale"] for part in known["parts"].values()] == ["small", "full"]


def test_every_part_has_its_note() -> None:
    assert {note.stem for note in page.NOTES.glob("*.md")} == PARTS.keys() | {"method"}


def _texts(name: str) -> list[str]:
    return [element.text or "" for element in ElementTree.parse(ROOT / name).iter("{http://www.w3.org/2000/svg}text")]


def test_the_guard_compares_the_medians_of_our_own_works_and_allows_transforms_more() -> None:
    before = {"vitrina load": [1.0, 1.0, 9.0], "floor load": [1.0], "vitrina memory, MB": [1.0], "vitrina gone": [1.0]}
    now = {"vitrina load": [1.06, 0.1, 2.0], "floor load": [9.0], "vitrina memory, MB": [9.0], "sent unchanged": [9.0]}
    [row] = judge("films", before, now)
    assert (row.work, row.ratio, row.is_slower) == ("films: vitrina load", 1.06, True)
    assert [row.is_slower for row in judge("transform", before, now)] == [False]
    assert [row.is_slower for row in judge("films", before, before | {"vitrina load": [1.05]})] == [False, False]


def test_the_quick_guard_goes_by_the_least_of_what_both_did_and_leaves_a_little_room() -> None:
    before = {"load, server": [1.0, 3.0], "load, runner": [0.01], "gone": [1.0]}
    now = {"load, server": [9.0, 1.12], "load, runner": [0.04], "new": [1.0]}
    assert [(row.work, row.is_slower) for row in quick.judge("films", before, now)] == [
        ("films: load, server", False),
        ("films: load, runner", False),
    ]
    assert [row.is_slower for row in quick.judge("films", before, {"load, server": [1.16, 2.0]})] == [True]
