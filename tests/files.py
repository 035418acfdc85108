"""A mart in files of Parquet, as people see it who know nothing of Vitrina: its manifest, and DuckDB."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.lake import typed_rows
from tests.support import Lab
from vitrina.testing.marts import Rows

MANIFEST = "_manifest.json"


@dataclass
class FilesSink:
    """In a folder."""

    lab: Lab
    folder: Path
    target: str = field(init=False)

    def __post_init__(self) -> None:
        self.target = f"file://{self.folder}/"
        self.lab.configure(allowed_files=["file:///*"], lake_unused_seconds=0, es_grace_seconds=0)

    @property
    def manifest(self) -> dict[str, Any] | None:
        """As it is kept."""
        text = self.get(MANIFEST)
        return json.loads(text) if text else None

    def get(self, path: str) -> bytes | None:
        """A file of the mart."""
        at = self.folder / path
        return at.read_bytes() if at.exists() else None

    def put(self, path: str, data: bytes) -> None:
        """A file of somebody's."""
        (self.folder / path).write_bytes(data)

    def paths(self) -> Iterator[str]:
        """All that are there."""
        return (str(f.relative_to(self.folder)) for f in self.folder.rglob("*") if f.is_file())

    @property
    def table(self) -> pa.Table:
        """By an engine that nobody here wrote, the way of docs/files.md."""
        import duckdb  # for those who use it

        with duckdb.connect() as db:
            db.execute(
                "SET VARIABLE files = (SELECT list_transform(files, lambda f: ? || f) FROM read_json(?))",
                [f"{self.folder}/", f"{self.folder}/{MANIFEST}"],
            )
            return db.sql("FROM read_parquet(getvariable('files'))").to_arrow_table()

    def rows(self, key: list[str]) -> Rows:
        """Compared in the query's own types."""
        manifest = self.manifest
        if not manifest or not manifest["files"]:
            return {}
        found = self.table
        return typed_rows(self.lab, found.column_names, found.to_pylist(), key)

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        """By somebody who writes files and says so in the manifest."""
        manifest = self.manifest
        assert manifest
        rows = [row for row in self.table.to_pylist() if str(row["id"]) != deleted]
        rows = [row | {"title": "damaged"} if str(row["id"]) == changed else row for row in rows]
        rows.append({name: added.get(name) for name in self.table.column_names})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=self.table.schema), sink)
        data, path = sink.getvalue().to_pybytes(), f"{manifest['version']}/by-hand.parquet"
        self.put(path, data)
        manifest["files"] = [path]
        manifest["vitrina"] |= {"rows": [len(rows)], "bytes": [len(data)]}
        self.put(MANIFEST, json.dumps(manifest).encode())

    @property
    def unnamed(self) -> set[str]:
        """Files of rows that nobody who reads the mart, or has just read it, knows of."""
        manifest = self.manifest
        named = set(manifest["files"]) if manifest else set()
        return {path for path in self.paths() if path.endswith(".parquet") and path not in named}
