"""Removing what no run comes back to: sets that another has replaced, and shadows of deleted pipelines."""

from collections.abc import Callable, Sequence
from contextlib import closing
from uuid import UUID

import structlog
from psycopg import sql

from vitrina.domain.errors import VitrinaError
from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.indexes import Generation, IndexRepo, orphaned_shadows
from vitrina.sinks.documents.shadow import SCHEMA, drop_shadow
from vitrina.stores import Mark, Store

log = structlog.get_logger()


def drop_orphans(conn: Connection) -> None:
    """Shadows that belong to no pipeline any more."""
    for name in orphaned_shadows(conn):
        with translated():
            conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, name)))


def remove_retired(conn: Connection, retired: Sequence[Generation], open_store: Callable[[Generation], Store]) -> None:
    """Whatever cannot be removed now is tried again by the next tidying."""
    try:
        for generation in retired:
            with closing(open_store(generation)) as store:
                remove(store, generation)
            with translated(), conn.transaction():
                forget(conn, generation)
            log.info("old index removed", index=generation.index)
    except VitrinaError as error:
        log.warning("old index kept", reason=str(error))


def remove(store: Store, generation: Generation) -> None:
    """Unless somebody has put another one in its place; it may also be gone."""
    found = store.mark(generation.index)
    if found and (found.id == generation.uuid or is_made_by(found, generation.pipeline_id)):
        store.drop(generation.index)


def forget(conn: Connection, generation: Generation) -> None:
    """With its shadow."""
    drop_shadow(conn, generation)
    IndexRepo(conn, generation.pipeline_id).remove(generation.number)


def is_made_by(mark: Mark, pipeline_id: UUID) -> bool:
    """Whether that pipeline says that it is its own."""
    return mark.owner == str(pipeline_id)
