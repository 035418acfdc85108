"""Lineage: from source tables through pipelines to marts, as a graph and as a table."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from vitrina.control.api.auth import Plane, Role, needs
from vitrina.control.console.graph import Graph, draw
from vitrina.control.console.render import Show
from vitrina.control.services.inspection import Inspection

router = APIRouter(prefix="/lineage")
DRAWN_NODES = 400


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
        count=len(graph.nodes),
        whole=len(whole.nodes),
        most=DRAWN_NODES,
    )
