"""Marts in SQLite: `target_table: sqlite:films` keeps films.sqlite in the folder that SQLITE_MARTS names."""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.stores import Batch, Document, Field, Mark, Store, Superseded

BOOKS = """
    CREATE TABLE IF NOT EXISTS vitrina_sets (name TEXT PRIMARY KEY, owner TEXT, id TEXT, fields TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS vitrina_mart (one INTEGER PRIMARY KEY CHECK (one = 1), epoch INTEGER, served TEXT);
    INSERT OR IGNORE INTO vitrina_mart VALUES (1, 0, NULL);
"""


def open_store(name: str) -> "SqliteStore":
    """The entry point: from the name behind the prefix to its store."""
    folder = os.environ.get("SQLITE_MARTS")
    if not folder:
        raise ConfigError("SQLITE_MARTS is not set", "set it to the folder for SQLite marts, where runners run")
    return SqliteStore(Path(folder) / f"{name}.sqlite", name)


class SqliteStore(Store):
    """One file a mart: a table of documents for each set, and a view with the mart's name over the one served."""

    def __init__(self, file: Path, view: str) -> None:
        self.file, self.view = file, view
        with self._open() as db:
            db.executescript(BOOKS)

    def take(self, name: str, epoch: int) -> None:
        """The fence, for all sets: `_begin` compares with it in every transaction that writes."""
        del name
        with self._begin(epoch) as db:
            db.execute("UPDATE vitrina_mart SET epoch = ?", [epoch])

    def mark(self, name: str) -> Mark | None:
        """From the books."""
        with self._open() as db:
            found = db.execute("SELECT owner, id FROM vitrina_sets WHERE name = ?", [name]).fetchone()
            return Mark(*found) if found else None

    def create(self, name: str, mark: Mark, fields: Sequence[Field], epoch: int) -> None:
        """A table of its own."""
        columns = ", ".join(
            f"document ->> {_text('$.' + _name(field.name))} AS {_name(field.name)}" for field in fields
        )
        with self._begin(epoch) as db:
            db.execute(f"DROP TABLE IF EXISTS {_name(name)}")
            db.execute(f"CREATE TABLE {_name(name)} (id TEXT PRIMARY KEY, version INTEGER, document TEXT)")
            db.execute("INSERT OR REPLACE INTO vitrina_sets VALUES (?, ?, ?, ?)", [name, mark.owner, mark.id, columns])

    def write(self, name: str, batch: Batch, epoch: int) -> None:
        """One transaction of SQLite: all of them, or none."""
        put = [(document.id, document.version, document.text) for document in batch if document.text is not None]
        gone = [(document.id,) for document in batch if document.text is None]
        with self._begin(epoch) as db:
            db.executemany(f"INSERT OR REPLACE INTO {_name(name)} VALUES (?, ?, ?)", put)
            db.executemany(f"DELETE FROM {_name(name)} WHERE id = ?", gone)

    def read(self, name: str) -> Iterator[Document]:
        """Of one moment: SQLite reads a snapshot."""
        with self._open() as db:
            for row in db.execute(f"SELECT id, version, document FROM {_name(name)}"):
                yield Document(*row)

    def count(self, name: str) -> int:
        """Its rows."""
        with self._open() as db:
            return int(db.execute(f"SELECT count(*) FROM {_name(name)}").fetchone()[0])

    def serve(self, name: str, epoch: int) -> None:
        """The view and the note of it, in one transaction."""
        with self._begin(epoch) as db:
            (columns,) = db.execute("SELECT fields FROM vitrina_sets WHERE name = ?", [name]).fetchone()
            db.execute(f"DROP VIEW IF EXISTS {_name(self.view)}")
            db.execute(f"CREATE VIEW {_name(self.view)} AS SELECT {columns} FROM {_name(name)}")
            db.execute("UPDATE vitrina_mart SET served = ?", [name])

    def served(self) -> Mapping[str, Mark]:
        """As noted."""
        noted = "SELECT s.name, s.owner, s.id FROM vitrina_sets s JOIN vitrina_mart m ON m.served = s.name"
        with self._open() as db:
            return {name: Mark(owner, id_) for name, owner, id_ in db.execute(noted)}

    def drop(self, name: str) -> None:
        """The table and its line in the books."""
        with self._open() as db, db:
            db.execute(f"DROP TABLE IF EXISTS {_name(name)}")
            db.execute("DELETE FROM vitrina_sets WHERE name = ?", [name])

    @contextmanager
    def _begin(self, epoch: int) -> Iterator[sqlite3.Connection]:
        """A transaction that writes, if no later epoch has taken the mart."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            (taken,) = db.execute("SELECT epoch FROM vitrina_mart").fetchone()
            if taken > epoch:
                raise Superseded(f"{self.file.name} was taken over by epoch {taken}")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection a call: two threads call. A transaction that was not committed ends with it."""
        try:
            with closing(sqlite3.connect(self.file, isolation_level=None, timeout=10)) as db:
                yield db
        except sqlite3.OperationalError as error:
            raise RetryableError(f"SQLite at {self.file}: {error}", "can the runner write there?") from error


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
