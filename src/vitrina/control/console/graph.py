"""A picture of what flows where: nodes in layers from left to right, ordered so that few lines cross."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from vitrina.control.services.inspection import Flow
from vitrina.sinks.registry import abilities_of

NODE_WIDTH, NODE_HEIGHT = 250, 30
ROW_GAP, LAYER_GAP, MARGIN = 12, 110, 16
SWEEPS = 6
FAR_TABLE, READ_MART = "table of another source", "mart that others read"


@dataclass(frozen=True)
class Node:
    """A table, a pipeline or a mart of some kind; a mart that others read is one node."""

    key: str
    kind: str
    label: str
    id: UUID | None = None
    status: str = ""
    age: float | None = None  # of a mart
    x: int = 0
    y: int = 0


@dataclass
class Graph:
    """Nodes by key, and which leads to which."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, flows: Iterable[Flow]) -> "Graph":
        """From the flows of all pipelines."""
        graph = cls()
        for flow in flows:
            own = f"pipeline:{flow.pipeline}"
            graph.nodes[own] = Node(own, "pipeline", flow.pipeline, flow.id, flow.status)
            for table in flow.tables:
                graph.nodes.setdefault(table, Node(table, FAR_TABLE if ": " in table else "table", table))
                graph.edges.add((table, own))
            if flow.target:
                graph.nodes[flow.target] = Node(flow.target, kind_of(flow.target), flow.target, age=flow.age)
                graph.edges.add((own, flow.target))
        graph._tell_between()
        return graph

    def _tell_between(self) -> None:
        """A mart that other pipelines read."""
        for key in {a for a, _ in self.edges}:
            if self.nodes[key].kind == "mart":
                self.nodes[key] = replace(self.nodes[key], kind=READ_MART)

    def around(self, text: str) -> "Graph":
        """What holds a text in its name, with everything that leads to it or comes from it."""
        kept = {key for key, node in self.nodes.items() if text.lower() in node.label.lower()}
        kept |= self._reach(kept, {(b, a) for a, b in self.edges}) | self._reach(kept, self.edges)
        nodes = {key: node for key, node in self.nodes.items() if key in kept}
        return Graph(nodes, {(a, b) for a, b in self.edges if a in kept and b in kept})

    def _reach(self, start: set[str], edges: set[tuple[str, str]]) -> set[str]:
        following = defaultdict[str, list[str]](list)
        for a, b in edges:
            following[a].append(b)
        seen, waiting = set(start), list(start)
        while waiting:
            for key in following[waiting.pop()]:
                if key not in seen:
                    seen.add(key)
                    waiting.append(key)
        return seen


def kind_of(target: str) -> str:
    """What a mart is, for people."""
    can = abilities_of(target)
    return "mart" if not can.needs_shadow else "index" if can.is_mapped else "documents"


def draw(graph: Graph) -> dict[str, Any]:
    """Where every node and line goes."""
    layers = _ordered(_layers(graph), graph.edges)
    placed: dict[str, Node] = {}
    tallest = max((len(layer) for layer in layers), default=0)
    for number, layer in enumerate(layers):
        top = MARGIN + (tallest - len(layer)) * (NODE_HEIGHT + ROW_GAP) // 2
        for row, key in enumerate(layer):
            x = MARGIN + number * (NODE_WIDTH + LAYER_GAP)
            placed[key] = _at(graph.nodes[key], x, top + row * (NODE_HEIGHT + ROW_GAP))
    return {
        "nodes": list(placed.values()),
        "edges": [_edge(placed[a], placed[b]) for a, b in sorted(graph.edges)],
        "width": 2 * MARGIN + len(layers) * NODE_WIDTH + max(len(layers) - 1, 0) * LAYER_GAP,
        "height": 2 * MARGIN + tallest * (NODE_HEIGHT + ROW_GAP),
        "node_width": NODE_WIDTH,
        "node_height": NODE_HEIGHT,
    }


def _layers(graph: Graph) -> list[list[str]]:
    """Each node one layer after the last that leads to it; a circle is cut where it was entered."""
    before = defaultdict[str, list[str]](list)
    for a, b in graph.edges:
        before[b].append(a)
    depth: dict[str, int] = {}
    for key in graph.nodes:
        _sink(key, before, depth)
    layers = defaultdict[int, list[str]](list)
    for key in sorted(graph.nodes):
        layers[depth[key]].append(key)
    return [layers[number] for number in sorted(layers)]


def _sink(start: str, before: dict[str, list[str]], depth: dict[str, int]) -> None:
    """Depth first and without recursion: chains of marts may be long."""
    path: list[str] = [start]
    on_path = {start}
    while path:
        key = path[-1]
        open_ = next((k for k in before[key] if k not in depth and k not in on_path), None)
        if open_ is not None and key not in depth:
            path.append(open_)
            on_path.add(open_)
            continue
        depth[key] = max((depth[k] + 1 for k in before[key] if k in depth), default=0)
        on_path.discard(path.pop())


def _ordered(layers: list[list[str]], edges: set[tuple[str, str]]) -> list[list[str]]:
    """Every node near the middle of its neighbours, to and fro a few times."""
    neighbours = defaultdict[str, list[str]](list)
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    places = {key: place for layer in layers for key, place in _places(layer).items()}
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            layer.sort(key=lambda key: (_middle(neighbours[key], places, places[key]), key))
            places |= _places(layer)
    return layers


def _places(layer: Sequence[str]) -> dict[str, float]:
    return {key: row / len(layer) for row, key in enumerate(layer)}


def _middle(keys: Sequence[str], places: dict[str, float], otherwise: float) -> float:
    return sum(places[key] for key in keys) / len(keys) if keys else otherwise


def _at(node: Node, x: int, y: int) -> Node:
    return replace(node, x=x, y=y)


def _edge(a: Node, b: Node) -> dict[str, str]:
    x1, y1 = a.x + NODE_WIDTH, a.y + NODE_HEIGHT // 2
    x2, y2 = b.x, b.y + NODE_HEIGHT // 2
    bend = LAYER_GAP // 2
    path = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    return {"from": a.key, "to": b.key, "path": path}
