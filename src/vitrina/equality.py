"""Is a mart equal to its query? Asked by the demo and the benchmark; apart from the engine, so that it can disagree."""

import json
from hashlib import sha256

from psycopg import sql

from vitrina.domain.pipeline import Plan
from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.engine.query import QueryText
from vitrina.sinks.elasticsearch.client import Elastic
from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.transforms import Row
from vitrina.transforms.chain import resolve_transformer
from vitrina.transforms.rows import load_rows

ROWS_AT_ONCE = 10_000


def count_differences(reader: Source, plan: Plan) -> int:
    """Rows that are in the mart or in the query (and its transforms) and not in both."""
    columns = reader.describe(plan.select)
    if plan.transforms:
        return _compare_rows(reader, plan, columns)
    return _compare_images(reader, plan, columns)


def count_different_documents(reader: Source, plan: Plan, elastic: Elastic) -> int:
    """Documents that are in the index or in the query and not in both: by id and by every value, digit for digit."""
    index = plan.target.removeprefix(ES_TARGET_PREFIX)
    elastic.refresh(index)
    found = {_document(held.id, held.text or "") for held in elastic.scan(index)}
    key = sql.SQL(" || '|' || ").join(sql.SQL("q.{}::text").format(sql.Identifier(name)) for name in plan.key)
    text = sql.SQL("SELECT {} AS id, row_to_json(q.*)::text AS document FROM (\n{}\n) AS q")
    wanted = {
        _document(row["id"], row["document"])
        for batch in reader.text_batches(text.format(key, sql.SQL(plan.select)), ROWS_AT_ONCE)
        for row in load_rows(batch)
    }
    return len(found ^ wanted)


def _document(id_: str, text: str) -> bytes:
    return sha256(json.dumps([id_, json.loads(text, parse_float=str)], sort_keys=True).encode()).digest()


def _compare_images(reader: Source, plan: Plan, columns: list[Column]) -> int:
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


def _compare_rows(reader: Source, plan: Plan, columns: list[Column]) -> int:
    transformer = resolve_transformer(plan.transforms, columns, plan.key)
    names = sql.SQL(", ").join(c.identifier for c in transformer.columns)
    mart = reader.fetch(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(*plan.target.split("."))))
    query = QueryText(plan.select, tuple(columns), plan.key).whole()
    expected = [
        row for batch in reader.text_batches(query, ROWS_AT_ONCE) for row in transformer.apply(load_rows(batch))
    ]
    return len(_images(mart) ^ _images(expected))


def _images(rows: list[Row]) -> set[str]:
    return {repr(sorted(row.items())) for row in rows}
