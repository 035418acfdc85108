"""The charts of the benchmark, as SVG: from the results alone, so that the same results always give the same chart."""

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

WIDTH = 880
LABELS = 250  # where the bars begin
BARS = 430  # how long they can be
ROW, GAP = 18, 14
SHORTEST, LONGEST = 0.1, 100.0  # times the floor, on a logarithmic scale
MOST = 2.0  # times what is allowed
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2937; }
.title { font-size: 15px; font-weight: 600; }
.part { font-weight: 600; }
.small { font-size: 11px; fill: #6b7280; }
.axis { stroke: #9ca3af; stroke-width: 1; }
.wanted { stroke: #dc2626; stroke-width: 2; }
.ours { fill: #2563eb; }
.peer { fill: #9ca3af; }
.met { fill: #2563eb; }
.missed { fill: #d97706; }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb; }
  .small { fill: #9ca3af; }
  .ours, .met { fill: #60a5fa; }
  .peer { fill: #6b7280; }
  .missed { fill: #f59e0b; }
  .wanted { stroke: #f87171; }
}
"""


@dataclass
class Canvas:
    """Shapes from top to bottom."""

    y: float = 0
    shapes: list[str] = field(default_factory=list)

    def text(self, x: float, said: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text, on the row's baseline."""
        self.shapes.append(
            f'<text x="{x:.0f}" y="{self.y + 12:.0f}" class="{kind}" text-anchor="{anchor}">{escape(said)}</text>'
        )

    def bar(self, length: float, kind: str) -> None:
        """From where the bars begin."""
        self.shapes.append(
            f'<rect x="{LABELS}" y="{self.y + 2:.0f}" width="{length:.1f}" height="12" rx="2" class="{kind}"/>'
        )

    def line(self, x: float, top: float, bottom: float, kind: str) -> None:
        """Upright."""
        self.shapes.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{bottom:.0f}" class="{kind}"/>')

    def svg(self, title: str) -> str:
        """The whole picture."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.y + 10:.0f}" role="img">',
                f"<title>{escape(title)}</title>",
                f"<style>{STYLE}</style>",
                *self.shapes,
                "</svg>\n",
            ]
        )


def speed_chart(results: dict[str, Any]) -> str:
    """How long each way takes, as times the floor; the red line is what is wanted of Vitrina."""
    canvas, title = Canvas(10), "How long it takes, as times the floor (logarithmic; shorter is better)"
    canvas.text(10, title, "title")
    canvas.y += 2 * ROW
    for part in results["parts"].values():
        if part["compared"]:
            canvas.text(10, part["title"], "part")
            canvas.y += ROW + 4
            for compared in part["compared"]:
                _work(canvas, compared)
    _footer(canvas, results)
    return canvas.svg(title)


def _work(canvas: Canvas, compared: dict[str, Any]) -> None:
    top, floor = canvas.y, compared["seconds"]["floor"]
    canvas.text(20, compared["work"])
    for way, seconds in compared["seconds"].items():
        if way == "floor":
            continue
        canvas.text(LABELS - 8, way, "small", "end")
        canvas.bar(_place(seconds / floor), "ours" if way in ("vitrina", "incremental", "live") else "peer")
        canvas.text(LABELS + BARS + 8, f"{seconds / floor:.2f} × the floor, {seconds:.2f} s", "small")
        canvas.y += ROW
    canvas.line(LABELS + _place(1.0), top, canvas.y, "axis")
    canvas.line(LABELS + _place(compared["most"]), top, canvas.y, "wanted")
    canvas.y += GAP


def _place(ratio: float) -> float:
    share = math.log(ratio / SHORTEST) / math.log(LONGEST / SHORTEST)
    return BARS * min(max(share, 0.01), 1.0)


def target_chart(results: dict[str, Any]) -> str:
    """Every target: how much of what is allowed was needed. At the red line it is all of it."""
    canvas, title = Canvas(10), "Targets: how much of what is allowed is needed (up to the red line is met)"
    canvas.text(10, title, "title")
    canvas.y += 2 * ROW
    parts = results["parts"]
    for part in dict.fromkeys(target["part"] for target in results["targets"]):
        canvas.text(10, parts[part]["title"], "part")
        canvas.y += ROW + 4
        top = canvas.y
        for target in results["targets"]:
            if target["part"] == part:
                _target(canvas, target)
        canvas.line(LABELS + BARS / MOST, top, canvas.y, "wanted")
        canvas.y += GAP
    _footer(canvas, results)
    return canvas.svg(title)


def _target(canvas: Canvas, target: dict[str, Any]) -> None:
    canvas.text(20, target["name"])
    canvas.y += ROW
    length = BARS / MOST * min(needed(target), MOST)
    canvas.bar(max(length, 1), "met" if target["met"] else "missed")
    canvas.text(LABELS - 8, "met" if target["met"] else "missed", "small", "end")
    canvas.text(LABELS + BARS + 8, f"{target['value']:g}, wanted {wanted(target)}", "small")
    canvas.y += ROW


def needed(target: dict[str, Any]) -> float:
    """What was measured, as a share of what is allowed."""
    value, limit = target["value"], target["target"]
    part, whole = (limit, value) if target["better"] == "high" else (value, limit)
    return float(part / whole) if whole else (MOST if part else 0.0)


def wanted(target: dict[str, Any]) -> str:
    """With its direction, for people."""
    return f"{'≥' if target['better'] == 'high' else '≤'} {target['target']:g}"


def _footer(canvas: Canvas, results: dict[str, Any]) -> None:
    """Machine, versions and date, of each run that is in the picture."""
    for said in provenance(results):
        canvas.text(10, said, "small")
        canvas.y += ROW


def provenance(results: dict[str, Any]) -> list[str]:
    """On what, when and with what the parts were measured; parts that agree share a line."""
    found: dict[str, list[str]] = {}
    for name, part in results["parts"].items():
        machine = part["machine"].partition(", load")[0]
        said = f"{part['date']}, scale {part['scale']}, {machine}"
        found.setdefault(said, []).append(name)
    versions: dict[str, str] = {}
    for part in results["parts"].values():
        versions |= part["versions"]
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [*(f"{', '.join(names)}: {said}" for said, names in found.items()), listed]
