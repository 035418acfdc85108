"""The API process: one app, every route behind a token except health and the documentation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles

from vitrina import __version__
from vitrina.control.api import alerts, metrics, pipelines, sources, system
from vitrina.control.api.auth import authorise
from vitrina.control.api.errors import add_error_handlers
from vitrina.control.api.limits import LimitBody
from vitrina.control.api.openapi import PROBLEMS, describe
from vitrina.control.console.app import create_console
from vitrina.control.plane import ControlPlane
from vitrina.control.services.metrics import StateMetrics

STATIC = Path(str(files("vitrina") / "control" / "static"))
DESCRIPTION = "Write a SELECT, name its key, and Vitrina keeps a mart equal to it."


def create_app(plane: ControlPlane) -> FastAPI:
    """The app over a control plane, whose pool lives as long as the app."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        plane.pool.open()
        yield
        plane.pool.close()

    app = FastAPI(
        title="Vitrina",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        separate_input_output_schemas=False,  # what is written is read: one model of it in a client
    )
    app.state.plane = plane
    app.state.metrics = StateMetrics(plane)
    api = APIRouter(prefix="/api/v1", dependencies=[Depends(authorise)], responses=PROBLEMS)
    api.include_router(pipelines.router)
    api.include_router(system.router)
    api.include_router(sources.router)
    api.include_router(alerts.router)
    app.include_router(api)
    app.include_router(system.public)
    app.include_router(metrics.router)
    app.mount("/console", create_console(plane), name="console")
    app.get("/", include_in_schema=False)(lead_to_console)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.add_middleware(LimitBody)
    _add_docs(app)
    add_error_handlers(app)
    describe(app)
    return app


def lead_to_console() -> RedirectResponse:
    """Who has nothing but the address is a person."""
    return RedirectResponse("/console/")


def _add_docs(app: FastAPI) -> None:
    """Swagger UI from the package: it works with the network cable out."""

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Vitrina",
            swagger_js_url="/static/swagger/swagger-ui-bundle.js",
            swagger_css_url="/static/swagger/swagger-ui.css",
            swagger_favicon_url="data:,",
        )
