"""Putting the parts together from settings: where the databases are, and who signs in where."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import errors, sql
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from vitrina.domain.pipeline import WAREHOUSE
from vitrina.embedded.elasticsearch import embedded_elasticsearch, find_server
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta import migrate, roles
from vitrina.meta.conninfo import Said
from vitrina.meta.db import connect
from vitrina.settings import Settings, variable

if TYPE_CHECKING:  # most commands open the warehouse alone, and would wait for the import of these
    from vitrina.control.plane import ControlPlane
    from vitrina.sources.connections import Connections

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
    if own := own_warehouse(settings):
        return own
    server = embedded_server(settings)
    server.start()
    _ensure_database(server)
    url = server.conninfo(DATABASE)
    return Warehouse(url, url, server)


def own_warehouse(settings: Settings) -> Warehouse | None:
    """The configured server; None: the embedded one is meant."""
    if settings.database_url is None:
        return None
    url = _reveal(settings.database_url, variable("database_url"))
    return Warehouse(url, _reveal(settings.direct_url, variable("direct_url")) if settings.direct_url else url, None)


def find_search(settings: Settings) -> Settings:
    """The settings with an Elasticsearch: the configured one, or the embedded one, started."""
    server = find_server(settings)
    return _with_search(settings, server.url) if server.embedded else settings


def running_search(settings: Settings) -> Settings:
    """The settings, with the embedded Elasticsearch where it runs and no other is named; stopped, it has no URL."""
    server = embedded_elasticsearch(settings)
    if settings.elasticsearch_url or not server.exists():
        return settings
    return _with_search(settings, server.url if server.is_running() else None)


def _with_search(settings: Settings, url: str | None) -> Settings:
    """A server of our own has no index of anybody else's to protect: unless told otherwise, all names are allowed."""
    told = "allowed_es_indexes" in settings.model_fields_set
    allowed = settings.allowed_es_indexes if told else ["*"]
    return settings.model_copy(
        update={"elasticsearch_url": SecretStr(url) if url else None, "allowed_es_indexes": allowed}
    )


def set_up(warehouse: Warehouse, settings: Settings) -> roles.RoleReport:
    """Migrations and roles: everything a fresh database needs."""
    migrate.upgrade(warehouse.direct)
    with connect(warehouse.direct, "set-up") as conn:
        report = roles.ensure_roles(conn, settings.allowed_source_schemas, settings.mart_schemas)
        if warehouse.embedded:
            conn.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(sql.Identifier(DATABASE)))
    return report


def connections(warehouse: Warehouse, settings: Settings) -> "Connections":
    """Each role's way in: its own URL; on the embedded server, its own sign-in; else the owner's."""
    from vitrina.sources.connections import Connections

    listener = "direct_url" if settings.direct_url else "runner_url"
    return Connections(
        warehouse=_as_role(warehouse, settings, "runner_url", roles.RUNNER),
        reader=_as_role(warehouse, settings, "reader_url", roles.READER),
        listen=_as_role(warehouse, settings, listener, roles.RUNNER),
        sources=_reveal_all(settings.sources, "sources"),
        settings=running_search(settings),
        captures=_captures(warehouse, settings),
        capture_owners={WAREHOUSE: warehouse.direct} | _reveal_all(settings.capture_owners, "capture_owners"),
    )


def control_plane(warehouse: Warehouse, settings: Settings) -> "ControlPlane":
    """The control plane, as the API's role."""
    from vitrina.control.plane import ControlPlane
    from vitrina.transforms.chain import load_transforms

    load_transforms(settings.transform_modules)
    return ControlPlane(_as_role(warehouse, settings, "api_role_url", roles.API), connections(warehouse, settings))


def _as_role(warehouse: Warehouse, settings: Settings, name: str, role: str) -> str:
    url: SecretStr | None = getattr(settings, name)
    if url is not None:
        return _reveal(url, variable(name))
    return make_conninfo(warehouse.owner, user=role) if warehouse.embedded else warehouse.owner


def _captures(warehouse: Warehouse, settings: Settings) -> dict[str, str]:
    """Directly, since a replication stream passes no pooler."""
    direct = Warehouse(warehouse.direct, warehouse.direct, warehouse.embedded)
    own = _as_role(direct, settings, "capture_url", roles.CAPTURE)
    return {WAREHOUSE: own} | _reveal_all(settings.capture_sources, "capture_sources")


def _reveal_all(urls: Mapping[str, SecretStr], setting: str) -> dict[str, str]:
    return {name: _reveal(url, variable(setting, name)) for name, url in urls.items()}


def _reveal(url: SecretStr, setting: str) -> str:
    return Said(url.get_secret_value(), setting)


def _ensure_database(server: EmbeddedPostgres) -> None:
    with connect(server.conninfo(), "set-up") as conn:
        known = conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if not known:
            with suppress(errors.DuplicateDatabase, errors.UniqueViolation):  # another process was faster
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
