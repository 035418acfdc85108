"""Lineage: from source tables through pipelines to marts, as a graph and as a table."""

from collections import defaultdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.access import Visitor
from vitrina.control.console.graph import FAR_TABLE, READ_MART, Graph, draw
from vitrina.control.console.render import Show
from vitrina.control.problems import NotFound
from vitrina.control.services.inspection import Inspection
from vitrina.control.services.pipelines import PipelineService

router = APIRouter(prefix="/lineage")
DRAWN_NODES = 400
KINDS = ("table", FAR_TABLE, "pipeline", "mart", READ_MART, "index", "documents")
MOST_READERS = 20  # of one table, whose queries are looked at


@router.get("")
@needs(Role.VIEWER)
def lineage(show: Show, plane: Plane, q: Annotated[str, Query(max_length=200)] = "") -> Response:
    """All of it, or what belongs to a name."""
    flows = Inspection(plane).flows()
    whole = Graph.of(flows)
    graph = whole.around(q.strip()) if q.strip() else whole
    too_many = len(graph.nodes) > DRAWN_NODES
    return show.page(
        "lineage.html",
        q=q,
        flows=[flow for flow in flows if f"pipeline:{flow.pipeline}" in graph.nodes],
        picture=None if too_many else draw(graph),
        kinds=[kind for kind in KINDS if any(node.kind == kind for node in graph.nodes.values())],
        count=len(graph.nodes),
        whole=len(whole.nodes),
        most=DRAWN_NODES,
    )


@router.get("/columns")
@needs(Role.VIEWER)
def columns(show: Show, plane: Plane, caller: Visitor, of: Annotated[str, Query(max_length=500)]) -> Response:
    """Of a pipeline or a mart, where its columns come from; of a table, where its columns go to."""
    inspection = Inspection(plane)
    flows = inspection.flows()
    service = PipelineService(plane, caller.name)
    into = [flow for flow in flows if of in (f"pipeline:{flow.pipeline}", flow.target)]
    out = [flow for flow in flows if of in flow.tables]
    if not into and not out:
        raise NotFound(f"there is no {of!r} in the graph")
    comes = [inspection.lineage_of(service.get(str(flow.id))) for flow in into[:1]]
    goes = [inspection.lineage_of(service.get(str(flow.id))) for flow in out[:MOST_READERS]]
    table = of.partition(": ")[2] or of
    return show.part(
        "lineage_columns.html", of=of.removeprefix("pipeline:"), comes=comes, goes=_uses(table, goes), out=out
    )


def _uses(table: str, lineages: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Each column of a table with the marts' columns that are computed from it."""
    uses = defaultdict[str, list[str]](list)
    for found in lineages:
        for column in found["columns"]:
            for source in column["sources"]:
                if source.startswith(table + "."):
                    uses[source.removeprefix(table + ".")].append(f"{found['target']}.{column['name']}")
    return dict(sorted(uses.items()))
