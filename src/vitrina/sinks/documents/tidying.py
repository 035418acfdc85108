"""Removing what no run comes back to: sets that another has replaced, and shadows of deleted pipelines."""

from collections.abc import Callable, Sequence
from contextlib import closing
from uuid import UUID

from psycopg import sql

from vitrina.domain.errors import VitrinaError
from vitrina.log import log
from vitrina.meta.db import Connection, translated
from vitrina.meta.repos.indexes import Edition, IndexRepo, orphaned_shadows
from vitrina.sinks.documents.shadow import SCHEMA, drop_shadow
from vitrina.stores import Mark, Store


def drop_orphans(conn: Connection) -> None:
    """Shadows that belong to no pipeline any more."""
    for name in orphaned_shadows(conn):
        with translated():
            conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, name)))


def remove_retired(conn: Connection, retired: Sequence[Edition], open_store: Callable[[Edition], Store]) -> None:
    """Whatever cannot be removed now is tried again by the next tidying."""
    for edition in retired:
        try:
            with closing(open_store(edition)) as store:
                remove(store, edition)
            with translated(), conn.transaction():
                forget(conn, edition)
            log.info("old index removed", index=edition.index)
        except VitrinaError as error:
            log.warning("old index kept", index=edition.index, reason=str(error))


def remove(store: Store, edition: Edition) -> None:
    """Unless somebody has put another one in its place; it may also be gone."""
    found = store.mark(edition.index)
    if found and (found.id == edition.uuid or is_made_by(found, edition.pipeline_id)):
        store.drop(edition.index)


def forget(conn: Connection, edition: Edition) -> None:
    """With its shadow."""
    drop_shadow(conn, edition)
    IndexRepo(conn, edition.pipeline_id).remove(edition.number)


def is_made_by(mark: Mark, pipeline_id: UUID) -> bool:
    """Whether that pipeline says that it is its own."""
    return mark.owner == str(pipeline_id)
