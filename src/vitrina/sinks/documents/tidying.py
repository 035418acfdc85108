"""Removing what no run comes back to: indexes that another has replaced, and shadows of deleted pipelines."""

from collections.abc import Sequence
from contextlib import ExitStack, closing

import structlog
from psycopg import sql

from vitrina.domain.errors import VitrinaError
from vitrina.domain.policy import is_outside
from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.indexes import Generation, IndexRepo, expired, orphaned_shadows
from vitrina.settings import Settings
from vitrina.sinks.documents.shadow import SCHEMA, drop_shadow
from vitrina.sinks.elasticsearch.client import LITTLE_TIME, Elastic
from vitrina.sinks.elasticsearch.index import IndexKeeper
from vitrina.sinks.elasticsearch.outlet import Keeper
from vitrina.sinks.plugin.store import StoreKeeper, resolve_store

log = structlog.get_logger()


def tidy_indexes(conn: Connection, settings: Settings) -> None:
    """Whatever cannot be removed now is tried again by the next tidying."""
    for name in orphaned_shadows(conn):
        with translated():
            conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, name)))
    retired = expired(conn, settings.es_grace_seconds)
    _remove(conn, settings, [found for found in retired if is_outside(found.target)])
    if settings.elasticsearch_url is not None:
        _remove(conn, settings, [found for found in retired if not is_outside(found.target)])


def _remove(conn: Connection, settings: Settings, retired: Sequence[Generation]) -> None:
    """What was retired, and not what somebody has put in its place."""
    try:
        for generation in retired:
            with ExitStack() as stack:
                _keeper(generation, settings, stack).remove(generation)
            with translated(), conn.transaction():
                drop_shadow(conn, generation)
                IndexRepo(conn, generation.pipeline_id).remove(generation.number)
            log.info("old index removed", index=generation.index)
    except VitrinaError as error:
        log.warning("old index kept", reason=str(error))


def _keeper(generation: Generation, settings: Settings, stack: ExitStack) -> Keeper:
    if is_outside(generation.target):
        store = stack.enter_context(closing(resolve_store(generation.target)))
        return StoreKeeper(store, generation.pipeline_id, generation.target, epoch=0, fields=())
    elastic = stack.enter_context(closing(Elastic(settings, LITTLE_TIME)))
    return IndexKeeper(elastic, generation.pipeline_id, generation.target, epoch=0)
