"""The lineage graph: layers from left to right, nothing on top of anything else, filters that keep what belongs."""

from dataclasses import replace
from itertools import pairwise
from uuid import uuid4

from vitrina.control.console.graph import FAR_TABLE, NODE_HEIGHT, NODE_WIDTH, Graph, Node, draw
from vitrina.control.services.inspection import Flow
from vitrina.domain.lifecycle import Status


def flow(name: str, *tables: str, target: str | None = None) -> Flow:
    return Flow(uuid4(), name, Status.IDLE, tables, target or f"analytics.{name}")


MANY = [flow(f"p{n}", f"content.t{n % 40}", f"content.t{(n * 7) % 40}") for n in range(35)]


def nodes(flows: list[Flow]) -> dict[str, Node]:
    return {node.key: node for node in draw(Graph.of(flows))["nodes"]}


def test_tables_come_before_pipelines_and_pipelines_before_marts() -> None:
    placed = nodes([flow("a", "content.x", "content.y")])
    assert placed["content.x"].x == placed["content.y"].x < placed["pipeline:a"].x < placed["analytics.a"].x


def test_a_mart_that_others_read_is_one_node_further_right() -> None:
    placed = nodes([flow("a", "content.x"), flow("b", "analytics.a")])
    columns = [placed[key].x for key in ("content.x", "pipeline:a", "analytics.a", "pipeline:b", "analytics.b")]
    assert columns == sorted(set(columns))
    assert [placed[key].kind for key in ("analytics.a", "analytics.b")] == ["mart that others read", "mart"]


def test_sources_and_kinds_of_marts_are_told_apart() -> None:
    placed = nodes([flow("a", "content.x", "far: content.y", target="es:a"), flow("b", target="elsewhere:b")])
    kinds = {key: node.kind for key, node in placed.items() if node.kind != "pipeline"}
    assert kinds == {"content.x": "table", "far: content.y": FAR_TABLE, "es:a": "index", "elsewhere:b": "documents"}


def test_a_mart_tells_its_age_also_where_others_read_it_first() -> None:
    first, second = flow("b", "analytics.a"), flow("a", "content.x")
    placed = nodes([replace(first, age=3.0), replace(second, age=2.0)])
    assert [placed[key].age for key in ("content.x", "analytics.a", "analytics.b")] == [None, 2.0, 3.0]


def test_a_hundred_nodes_lie_apart() -> None:
    placed = list(nodes(MANY).values())
    assert len(placed) > 100
    for x in {node.x for node in placed}:
        column = sorted(node.y for node in placed if node.x == x)
        assert all(below - above > NODE_HEIGHT for above, below in pairwise(column))
    assert all(b - a > NODE_WIDTH for a, b in pairwise(sorted({node.x for node in placed})))


def test_the_order_has_fewer_crossings_than_the_alphabet() -> None:
    graph = Graph.of(MANY)
    placed = {node.key: node.y for node in draw(graph)["nodes"]}
    alphabet = {key: place for place, key in enumerate(sorted(graph.nodes))}
    assert _crossings(graph, placed) < _crossings(graph, alphabet) / 2


def _crossings(graph: Graph, place: dict[str, int]) -> int:
    edges = [(a, b) for a, b in graph.edges if b.startswith("pipeline:")]
    return sum((place[a] - place[c]) * (place[b] - place[d]) < 0 for a, b in edges for c, d in edges) // 2


def test_a_circle_is_drawn_all_the_same() -> None:
    assert len(nodes([flow("a", "analytics.b"), flow("b", "analytics.a")])) == 4


def test_a_long_chain_is_no_trouble() -> None:
    chain = [flow(f"p{n}", f"analytics.p{n - 1}" if n else "content.x") for n in range(1_500)]
    assert len(nodes(chain)) == 3_001


def test_a_filter_keeps_what_leads_there_and_what_comes_of_it() -> None:
    graph = Graph.of([flow("a", "content.x"), flow("b", "content.y"), flow("c", "analytics.a")])
    assert graph.around("PIPELINE").nodes == {}
    kept = graph.around("analytics.A").nodes.keys()
    assert kept == {"content.x", "pipeline:a", "analytics.a", "pipeline:c", "analytics.c"}


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw(Graph.of([]))["nodes"] == []
