"""Where a source of DuckDB is, by its address, and an instance that can read there and do nothing else.

`duckdb:///data/lake.duckdb` is a database file; `duckdb:///data/lake/` a folder, whose files `schema/table.parquet`,
and folders `schema/table/` of such files, are its tables. Either may be told more by its address:
`?memory=1GB&threads=2&files=/data/more/`.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import duckdb

from vitrina.domain.errors import ConfigError, DatabaseLost
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.settings import Settings
from vitrina.sources.duckdb.spill import Spill, sweep

NAME = "lake"  # of the database, in the instance
REMEDY = "write duckdb:///path/to/lake.duckdb, or duckdb:///path/to/folder/ with Parquet files"
KNOWN = {"files", "memory", "threads"}
# Nothing outside is loaded or asked: no extension, no variable of this program, no file but those that are named below.
CLOSED = {
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "arrow_lossless_conversion": "true",
}


@dataclass(frozen=True)
class Lake:
    """What an address says."""

    path: Path
    is_folder: bool
    files: Sequence[str]  # folders that queries may read files of
    memory: str
    threads: int

    @classmethod
    def parse(cls, url: str) -> "Lake":
        """A ConfigError that does not quote it, if it says something else."""
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise ConfigError.of(SourceRefusal.DUCKDB_NO_PATH) from error
        given = parse_qs(parts.query, keep_blank_values=True)
        if parts.netloc or not parts.path or (unknown := sorted(given.keys() - KNOWN)):
            said = f"knows no {unknown[0]}" if not parts.netloc and parts.path else "names no absolute path"
            raise ConfigError(f"the address of a source in DuckDB {said}", REMEDY)
        path, threads = unquote(parts.path), given.get("threads", ["2"])[-1]
        if not threads.isdecimal() or int(threads) < 1:
            raise ConfigError.of(SourceRefusal.DUCKDB_THREADS)
        is_folder = path.endswith("/") or Path(path).is_dir()
        more = [os.path.join(folder, "") for folder in given.get("files", [])]
        own = [os.path.join(path, "")] if is_folder else []
        return cls(Path(path), is_folder, own + more, given.get("memory", ["256MB"])[-1], int(threads))

    def open(self, settings: Settings) -> "Instance":
        """In memory, with the file attached for reading."""
        if not (self.path.is_dir() if self.is_folder else self.path.is_file()):
            code = SourceRefusal.DUCKDB_NO_FOLDER if self.is_folder else SourceRefusal.DUCKDB_NO_FILE
            raise ConfigError.of(code, path=str(self.path))
        sweep()
        try:
            conn = duckdb.connect(":memory:", config={**CLOSED, "threads": self.threads, "memory_limit": self.memory})
        except duckdb.Error as error:
            raise ConfigError.of(SourceRefusal.DUCKDB_SETTINGS, error=first_line(error)) from error
        instance = Instance(conn, Spill.make())
        try:
            for statement in self._statements(instance.spill.path, settings.temp_file_limit):
                conn.execute(statement)
        except duckdb.Error as error:
            instance.close()
            raise _of_opening(self.path, error) from error
        return instance

    def _statements(self, spill: Path, limit: str) -> Iterator[str]:
        yield "SET TimeZone = 'UTC'"
        yield "SET enable_progress_bar = false"
        yield f"SET temp_directory = {literal(str(spill))}"
        if limit not in ("", "-1"):
            yield f"SET max_temp_directory_size = {literal(_bytes(limit))}"
        if self.is_folder:
            yield f"SET file_search_path = {literal(str(self.path))}"
        else:
            yield f"ATTACH {literal(str(self.path))} AS {NAME} (READ_ONLY)"
            yield f"USE {NAME}"
        yield f"SET allowed_directories = [{', '.join(map(literal, self.files))}]"
        yield "SET enable_external_access = false"
        yield "SET lock_configuration = true"


@dataclass(frozen=True)
class Instance:
    """An open one, and where it puts what does not fit into its memory."""

    conn: duckdb.DuckDBPyConnection
    spill: Spill

    def close(self) -> None:
        """With what it has put aside."""
        self.conn.close()
        self.spill.remove()


def literal(text: str) -> str:
    """A string of its SQL, which knows no escapes but the doubled quote."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Quoted."""
    return '"' + name.replace('"', '""') + '"'


def first_line(error: Exception) -> str:
    """Of its message: those that follow point into the query."""
    return str(error).partition("\n")[0].strip()


def _bytes(limit: str) -> str:
    """As Postgres has it, in steps of 1024."""
    return limit[:-1] + "iB" if limit[-2:] in ("kB", "MB", "GB", "TB") else limit


def _of_opening(path: Path, error: duckdb.Error) -> Exception:
    said = first_line(error)
    if "Could not set lock" in said:
        return DatabaseLost(f"{path} is held by somebody who writes: {said}")
    return ConfigError(f"{path} cannot be read: {said}", REMEDY)
