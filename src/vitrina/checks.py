"""Is a mart equal to its query? Asked by the demo and the benchmark; apart from the engine, so that it can disagree."""

from psycopg import sql

from vitrina.adapters.readers.postgres import PostgresReader
from vitrina.adapters.transformers import resolve_transformer
from vitrina.adapters.writers.converge import QueryText
from vitrina.domain.pipeline import Plan
from vitrina.sql.describe import Column
from vitrina.transforms import Row


def count_differences(reader: PostgresReader, plan: Plan) -> int:
    """Rows that are in the mart or in the query (and its transforms) and not in both."""
    columns = reader.describe(plan.select)
    if plan.transforms:
        return _compare_rows(reader, plan, columns)
    return _compare_images(reader, plan, columns)


def _compare_images(reader: PostgresReader, plan: Plan, columns: list[Column]) -> int:
    names = sql.SQL(", ").join(c.identifier for c in columns)
    images = sql.SQL("SELECT md5(ROW({})::text) AS image FROM {} AS x")
    query = images.format(names, sql.SQL("(\n{}\n)").format(sql.SQL(plan.select)))
    mart = images.format(names, sql.Identifier(*plan.target.split(".")))
    text = """
        SELECT (SELECT count(*) FROM ({query} EXCEPT ALL {mart}) AS missing)
             + (SELECT count(*) FROM ({mart} EXCEPT ALL {query}) AS extra) AS n
        """
    differences: int = reader.fetch(sql.SQL(text).format(query=query, mart=mart))[0]["n"]
    return differences


def _compare_rows(reader: PostgresReader, plan: Plan, columns: list[Column]) -> int:
    transformer = resolve_transformer(plan.transforms, columns, plan.key)
    names = sql.SQL(", ").join(c.identifier for c in transformer.columns)
    mart = reader.fetch(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(*plan.target.split("."))))
    query = QueryText(plan.select, tuple(columns), plan.key).by_range(lower=False, upper=False)
    expected = [row for rows in reader.batches(query, 10_000) for row in transformer.apply(rows)]
    return len(_images(mart) ^ _images(expected))


def _images(rows: list[Row]) -> set[str]:
    return {repr(sorted(row.items())) for row in rows}
