"""The rows that say which file is what a table is now: Iceberg's SQL catalogue, in the warehouse, in schema etl_lake.

Tables are served under one name of a catalogue. One that is still being built is in a catalogue of its own, so nobody
who looks for tables sees it.
"""

from dataclasses import dataclass

from vitrina.domain.errors import RetryableError
from vitrina.meta.db import Connection, fetch_all, queries, translated

SERVED, BUILDING = "vitrina", "vitrina-building"
SQL = queries("lake")


@dataclass(frozen=True)
class Pointer:
    """A row."""

    catalogue: str
    namespace: str
    table: str

    @property
    def params(self) -> dict[str, str]:
        """For a statement."""
        return {"catalogue": self.catalogue, "namespace": self.namespace, "table": self.table}


def find(conn: Connection, pointer: Pointer) -> str | None:
    """The file; None if there is no such table."""
    rows = fetch_all(conn, SQL["find"], pointer.params)
    return str(rows[0]["metadata_location"]) if rows else None


def begin(conn: Connection, pointer: Pointer, location: str) -> None:
    """A table, or another one in the place of what was being built."""
    with translated():
        conn.execute(SQL["begin"], pointer.params | {"location": location})


def move(conn: Connection, pointer: Pointer, old: str, new: str) -> None:
    """From one file to the next, in the transaction of the checkpoint; a RetryableError if it was not at the first."""
    with translated():
        moved = conn.execute(SQL["move"], pointer.params | {"old": old, "new": new}).rowcount
    if moved != 1:
        name = f"{pointer.namespace}.{pointer.table}"
        raise RetryableError(f"somebody else has committed to lake table {name} meanwhile")


def serve(conn: Connection, built: Pointer, served: Pointer) -> None:
    """What was built takes the place of what is served, in one move."""
    with translated():
        conn.execute(SQL["name_space"], served.params)
        conn.execute(SQL["serve"], served.params | {"building": built.catalogue})
        conn.execute(SQL["forget"], built.params)


def forget(conn: Connection, folder: str) -> None:
    """Whatever points into a folder that is removed."""
    with translated():
        conn.execute(SQL["forget_folder"], {"folder": folder})
