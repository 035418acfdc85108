"""What is generated of the documentation: docs/openapi.json, and the table of endpoints in docs/api.md.

`make openapi` writes both anew; tests compare.
"""

import json
import re
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from vitrina.control.api.app import create_app
from vitrina.control.api.auth import needed_role
from vitrina.control.plane import ControlPlane
from vitrina.settings import Settings
from vitrina.sources.connections import Connections

DOCS = Path(__file__).parents[2] / "docs"
SNAPSHOT = DOCS / "openapi.json"
GUIDE = DOCS / "api.md"
TABLE = re.compile(r"(?<=<!-- endpoints: written by `make openapi` -->\n).*?(?=<!-- end -->)", re.DOTALL)


def app() -> FastAPI:
    """The app, connected to nothing."""
    return create_app(ControlPlane("", Connections("", "", "", {}, Settings())))


def endpoints(app: FastAPI) -> str:
    """Every documented route: method, path, role, what it is for."""
    rows = ["| method | path | role | what |", "|---|---|---|---|"]
    for route in iter_route_contexts(app.routes):
        if route.endpoint and getattr(route, "operation_id", None):
            methods, role = ", ".join(sorted(route.methods or ())), needed_role(route.endpoint)
            rows.append(f"| {methods} | `{route.path}` | {_named(role)} | {route.summary} |")
    return "\n".join(rows) + "\n"


def _named(role: Any) -> str:
    return role.name.lower() if role else "anybody"


if __name__ == "__main__":
    made = app()
    SNAPSHOT.write_text(json.dumps(made.openapi(), indent=2, ensure_ascii=False) + "\n")
    GUIDE.write_text(TABLE.sub(lambda _: endpoints(made), GUIDE.read_text()))
