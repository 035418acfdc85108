"""A mart in a lake, as people see it who know nothing of Vitrina: pyiceberg's own catalogue over the warehouse."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from sqlalchemy import URL

from tests.support import Lab
from vitrina.sinks.lake.place import spelled
from vitrina.testing.marts import Rows, as_rows


def typed_rows(
    lab: Lab, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], key: list[str], select: str | None = None
) -> Rows:
    """What somebody has read, compared in the types of a query: of the pipeline's own, where there is one."""
    lab.sql("DROP TABLE IF EXISTS public.held")
    select = select or lab.value(
        "SELECT coalesce(source_query, 'SELECT * FROM ' || source_table) FROM etl.etl_pipelines"
    )
    lab.sql(f"CREATE TABLE public.held AS SELECT * FROM ({select}) AS q WITH NO DATA")
    names = ", ".join(columns)
    for row in rows:
        values = [json.dumps(value) if isinstance(value, Mapping) else value for value in row.values()]
        lab.sql(f"INSERT INTO public.held ({names}) VALUES ({', '.join(['%s'] * len(values))})", *values)
    return as_rows(lab, f"SELECT {names} FROM public.held", key)


@dataclass
class LakeSink:
    """A table of Iceberg in a folder."""

    lab: Lab
    folder: Path
    target: str = "lake:cinema.mart"
    properties: dict[str, str] = field(default_factory=dict)  # for who reads the files

    def __post_init__(self) -> None:
        self.lab.configure(lake_url=f"file://{self.folder}", allowed_lake_tables=["cinema.*"], lake_unused_seconds=0)

    @property
    def catalogue(self) -> SqlCatalog:
        """As anybody opens it."""
        parts = conninfo_to_dict(self.lab.conninfo)
        where = {"host": str(parts["host"]), "port": str(parts["port"]), "options": "-csearch_path=etl_lake"}
        url = URL.create("postgresql+psycopg", str(parts["user"]), database=str(parts["dbname"]), query=where)
        return SqlCatalog("vitrina", uri=url.render_as_string(hide_password=False), **self.properties)

    @property
    def table(self) -> Table:
        """As it is now."""
        return self.catalogue.load_table(self.target.removeprefix("lake:"))

    def rows(self, key: list[str]) -> Rows:
        """Read by pyiceberg, and compared in the query's own types."""
        if not self.catalogue.namespace_exists("cinema"):
            return {}
        found = self.table.scan().to_arrow()
        return typed_rows(self.lab, found.column_names, found.to_pylist(), key)

    def damage(self, changed: str, deleted: str, added: dict[str, Any]) -> None:
        """By somebody who writes to the lake as lakes are written to."""
        table = self.table
        old = table.scan(row_filter=f"id == {changed}").to_arrow()
        other = [row | {"title": "damaged"} for row in old.to_pylist()]
        table.overwrite(pa.Table.from_pylist(other, schema=old.schema), f"id == {changed}")
        table.delete(f"id == {deleted}")
        row = {name: [added.get(name)] for name in old.column_names}
        table.append(pa.table(row, schema=old.schema))

    @property
    def by_duckdb(self) -> list[tuple[Any, ...]]:
        """The rows of the files that count, by an engine that nobody here wrote."""
        import duckdb  # for those who use it

        tasks = [*self.table.scan().plan_files()]
        marks = [file.file_path.removeprefix("file://") for task in tasks for file in task.delete_files]
        files = [task.file.file_path.removeprefix("file://") for task in tasks]
        text = (
            "SELECT * EXCLUDE (filename, file_row_number) FROM read_parquet(?, filename=true, file_row_number=true) f"
        )
        if marks:
            same = "d.file_path = 'file://' || f.filename AND d.pos = f.file_row_number"
            text += f" ANTI JOIN read_parquet(?) d ON {same}"
        given = [files, marks] if marks else [files]
        found = duckdb.connect().sql(f"{text} ORDER BY 1", params=given).to_arrow_table().to_pylist()
        return [tuple(row.values()) for row in found]

    def files(self, url: str) -> set[str]:
        """All that are below it."""
        return {f"file://{file}" for file in Path(url.removeprefix("file://")).rglob("*") if file.is_file()}

    def unreferenced(self) -> set[str]:
        """Files that no snapshot of the table knows."""
        io, metadata = self.table.io, self.table.metadata
        known = {self.table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        for snapshot in metadata.snapshots:
            known.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(io):
                entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
                known |= {manifest.manifest_path, *(entry.data_file.file_path for entry in entries)}
        return self.files(metadata.location) - {spelled(path) for path in known}
