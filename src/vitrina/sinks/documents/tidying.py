"""Removing what no run comes back to: indexes that another has replaced, and shadows of deleted pipelines."""

from contextlib import closing

import structlog
from psycopg import sql

from vitrina.domain.errors import VitrinaError
from vitrina.domain.policy import is_outside
from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.indexes import IndexRepo, expired, orphaned_shadows
from vitrina.settings import Settings
from vitrina.sinks.documents.shadow import SCHEMA, drop_shadow
from vitrina.sinks.elasticsearch.client import LITTLE_TIME, Elastic

log = structlog.get_logger()


def tidy_indexes(conn: Connection, settings: Settings) -> None:
    """Whatever cannot be removed now is tried again by the next tidying."""
    for name in orphaned_shadows(conn):
        with translated():
            conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, name)))
    expired_now = expired(conn, settings.es_grace_seconds)
    retired = [found for found in expired_now if not is_outside(found.target)]  # a plug-in's have a prefix: its run's
    if not retired or settings.elasticsearch_url is None:
        return
    try:
        with closing(Elastic(settings, LITTLE_TIME)) as elastic:
            for generation in retired:
                elastic.delete(generation.index)
                with translated(), conn.transaction():
                    drop_shadow(conn, generation)
                    IndexRepo(conn, generation.pipeline_id).remove(generation.number)
                log.info("old index removed", index=generation.index)
    except VitrinaError as error:
        log.warning("old index kept", reason=str(error))
