"""Putting the parts together from settings: where the databases are, and who signs in where."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from vitrina.control.plane import ControlPlane
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.embedded.elasticsearch import embedded_elasticsearch, find_server
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta import migrate, roles
from vitrina.meta.db import connect
from vitrina.settings import Settings
from vitrina.sources.connections import Connections
from vitrina.transforms.chain import load_transforms

DATABASE = "vitrina"


@dataclass(frozen=True)
class Warehouse:
    """The warehouse's conninfo as its owner, and whether the server is one of ours."""

    owner: str
    direct: str
    embedded: EmbeddedPostgres | None


def embedded_server(settings: Settings) -> EmbeddedPostgres:
    """The server in `$VITRINA_HOME`."""
    return EmbeddedPostgres(Path(settings.home) / "postgres")


def open_warehouse(settings: Settings) -> Warehouse:
    """The configured server, or the embedded one, started and with its database."""
    if settings.database_url:
        url = settings.database_url.get_secret_value()
        return Warehouse(url, settings.direct_url.get_secret_value() if settings.direct_url else url, None)
    server = embedded_server(settings)
    server.start()
    _ensure_database(server)
    url = server.conninfo(DATABASE)
    return Warehouse(url, url, server)


def find_search(settings: Settings) -> Settings:
    """The settings with an Elasticsearch: the configured one, or the embedded one, started."""
    server = find_server(settings)
    return _with_search(settings, server.url) if server.embedded else settings


def running_search(settings: Settings) -> Settings:
    """The settings, with the embedded Elasticsearch where it runs and no other is named."""
    server = embedded_elasticsearch(settings)
    return settings if settings.elasticsearch_url or not server.is_running() else _with_search(settings, server.url)


def _with_search(settings: Settings, url: str) -> Settings:
    """A server of our own has no index of anybody else's to protect: unless told otherwise, all names are allowed."""
    told = "allowed_es_indexes" in settings.model_fields_set
    allowed = settings.allowed_es_indexes if told else ["*"]
    return settings.model_copy(update={"elasticsearch_url": SecretStr(url), "allowed_es_indexes": allowed})


def set_up(warehouse: Warehouse, settings: Settings) -> roles.RoleReport:
    """Migrations and roles: everything a fresh database needs."""
    migrate.upgrade(warehouse.direct)
    with connect(warehouse.direct, "set-up") as conn:
        report = roles.ensure_roles(conn, settings.allowed_source_schemas, settings.mart_schemas)
        if warehouse.embedded:
            conn.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(sql.Identifier(DATABASE)))
    return report


def connections(warehouse: Warehouse, settings: Settings) -> Connections:
    """Each role's way in: its own URL; on the embedded server, its own sign-in; else the owner's."""
    return Connections(
        warehouse=_as_role(warehouse, settings.runner_url, roles.RUNNER),
        reader=_as_role(warehouse, settings.reader_url, roles.READER),
        listen=_as_role(warehouse, settings.direct_url or settings.runner_url, roles.RUNNER),
        sources={name: url.get_secret_value() for name, url in settings.sources.items()},
        settings=running_search(settings),
        captures=_captures(warehouse, settings),
    )


def control_plane(warehouse: Warehouse, settings: Settings) -> ControlPlane:
    """The control plane, as the API's role."""
    load_transforms(settings.transform_modules)
    return ControlPlane(_as_role(warehouse, settings.api_role_url, roles.API), connections(warehouse, settings))


def _as_role(warehouse: Warehouse, url: SecretStr | None, role: str) -> str:
    if url is not None:
        return url.get_secret_value()
    return make_conninfo(warehouse.owner, user=role) if warehouse.embedded else warehouse.owner


def _captures(warehouse: Warehouse, settings: Settings) -> dict[str, str]:
    """Directly, since a replication stream passes no pooler."""
    named = {name: url.get_secret_value() for name, url in settings.capture_sources.items()}
    direct = Warehouse(warehouse.direct, warehouse.direct, warehouse.embedded)
    return {WAREHOUSE: _as_role(direct, settings.capture_url, roles.CAPTURE)} | named


def _ensure_database(server: EmbeddedPostgres) -> None:
    with connect(server.conninfo(), "set-up") as conn:
        known = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if not known:
            with suppress(errors.DuplicateDatabase, errors.UniqueViolation):  # another process was faster
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
