"""From Postgres types to documents: the derived mapping, the exact text that is kept, and what searches find."""

import json
from typing import Any

import pytest

from tests.elastic import BOTH, Search

engines = BOTH

KEYWORD = {"type": "keyword", "ignore_above": 8191}
TEXT = {"type": "text", "fields": {"keyword": KEYWORD}}
OBJECT = {"dynamic": "true"}
MOOD = "CREATE TYPE content.mood AS ENUM ('sad', 'ok')"
HUGE = "123456789012345678901234567890.123456789012345678901234567890"

# name: type, the values of the rows 1, 2, …, what is in the documents, the mapping
TYPES: dict[str, tuple[str, list[str | None], list[str], dict[str, Any]]] = {
    "a_uuid": ("uuid", ["8A2E1D0C-0000-4000-8000-000000000001"], ['"8a2e1d0c-0000-4000-8000-000000000001"'], KEYWORD),
    "a_bool": ("boolean", ["t", "f"], ["true", "false"], {"type": "boolean"}),
    "a_short": ("smallint", ["-32768"], ["-32768"], {"type": "short"}),
    "an_int": ("integer", ["2147483647"], ["2147483647"], {"type": "integer"}),
    "a_long": ("bigint", ["9223372036854775807"], ["9223372036854775807"], {"type": "long"}),
    "a_real": ("real", ["0.1", "NaN", "Infinity", "-0"], ["0.1", "null", "null", "-0"], {"type": "float"}),
    "a_double": ("double precision", ["0.1", "NaN", "-Infinity"], ["0.1", "null", "null"], {"type": "double"}),
    "a_numeric": (
        "numeric",
        [HUGE, "NaN", "Infinity", "1.50", "1e300"],
        [HUGE, "null", "null", "1.50", "1" + "0" * 300],
        {"type": "double"},
    ),
    "a_price": ("numeric(9, 2)", ["1.50", "-0.01"], ["1.50", "-0.01"], {"type": "double"}),
    "a_time": (
        "timestamptz",
        ["2024-02-29 23:59:59.123456+03", "infinity", "-infinity", "0001-01-01 00:00:00+00"],
        ['"2024-02-29T20:59:59.123456+00:00"', "null", "null", '"0001-01-01T00:00:00+00:00"'],
        {"type": "date"},
    ),
    "a_local": ("timestamp", ["2024-01-01 12:00", "infinity"], ['"2024-01-01T12:00:00"', "null"], {"type": "date"}),
    "a_date": ("date", ["2024-02-29", "-infinity"], ['"2024-02-29"', "null"], {"type": "date"}),
    "an_hour": ("time", ["24:00", "08:30:00.5"], ['"24:00:00"', '"08:30:00.5"'], KEYWORD),
    "a_while": ("interval", ["1 year 2 days 03:04:05.6"], ['"1 year 2 days 03:04:05.6"'], KEYWORD),
    "a_text": ("text", ['a "b"\n\\ é 𝄞', ""], [r'"a \"b\"\n\\ é 𝄞"', '""'], TEXT),
    "a_name": ("varchar(9)", ["Ann"], ['"Ann"'], TEXT),
    "a_code": ("char(4)", ["ab"], ['"ab  "'], TEXT),
    "a_mood": ("content.mood", ["sad"], ['"sad"'], KEYWORD),
    "a_host": ("inet", ["10.0.0.1", "::1", "10.0.0.0/8"], ['"10.0.0.1"', '"::1"', '"10.0.0.0/8"'], KEYWORD),
    "a_blob": ("bytea", ["\\x00ff10" + "ab" * 90, ""], ['"AP8Q' + "q6ur" * 30 + '"', '""'], {"type": "binary"}),
    "a_point": ("point", ["(1,2)"], ['"(1,2)"'], KEYWORD),
    "texts": ("text[]", ["{a,NULL,b}", "{}", "{{a,b},{c,d}}"], ['["a",null,"b"]', "[]", '[["a","b"],["c","d"]]'], TEXT),
    "numbers": (
        "numeric[]",
        ["{1.50,NaN,NULL}", "{}", "{{1,2},{3,4.0}}"],
        ["[1.50, null, null]", "[]", "[1, 2, 3, 4.0]"],
        {"type": "double"},
    ),
    "longs": ("bigint[]", ["{9223372036854775807,NULL}", "{{1},{2}}"], ["[9223372036854775807,null]", "[[1],[2]]"],
              {"type": "long"}),
    "times": ("timestamptz[]", ["{2024-01-01 00:00+01,infinity}"], ['["2023-12-31T23:00:00+00:00", null]'],
              {"type": "date"}),
    "moods": ("content.mood[]", ["{sad,NULL,ok}"], ['["sad", null, "ok"]'], KEYWORD),
    "blobs": ("bytea[]", ['{"\\\\x00ff",NULL}'], ['["AP8=", null]'], {"type": "binary"}),
    "a_json": ("json", ['{"b": 1.50,\n "a": [{"c": null}]}', "null"], ['{"a": [{"c": null}], "b": 1.50}', "null"],
               OBJECT),
    "a_jsonb": ("jsonb", ['{"x": {"y": 10000000000000000.01}}', '[{"x": {"y": 1}}, {"x": null}]', "{}", "[]"],
                ['{"x": {"y": 10000000000000000.01}}', '[{"x": {"y": 1}}, {"x": null}]', "{}", "[]"], OBJECT),
    "docs": ("jsonb[]", ['{"{\\"n\\": 1}",NULL}'], ['[{"n": 1},null]'], OBJECT),
    "ints": ("int4range", ["[1,5]", "empty", "(,3)"], ['{"lt": 6, "gte": 1}', "null", '{"lt": 3}'],
             {"type": "integer_range"}),
    "prices": ("numrange", ["(1.5,2.50]", "(,)"], ['{"gt": 1.5, "lte": 2.50}', "{}"], {"type": "double_range"}),
    "days": ("daterange", ["[2024-01-01,2024-01-31]"], ['{"lt": "2024-02-01", "gte": "2024-01-01"}'],
             {"type": "date_range"}),
    "spans": ("tstzrange", ["[2024-01-01 00:00+00,infinity)"], ['{"gte": "2024-01-01T00:00:00+00:00"}'],
              {"type": "date_range"}),
    "slots": ("int8multirange", ["{[1,2],[8,9)}", "{}"], ['[{"lt": 3, "gte": 1}, {"lt": 9, "gte": 8}]', "[]"],
              {"type": "long_range"}),
}  # fmt: skip


FOUND: list[tuple[dict[str, Any], list[str]]] = [
    ({"term": {"a_uuid": "8a2e1d0c-0000-4000-8000-000000000001"}}, ["1"]),
    ({"term": {"a_numeric": 1.5}}, ["4"]),
    ({"range": {"a_numeric": {"gt": 1e29}}}, ["1", "5"]),
    ({"term": {"a_long": 9223372036854775807}}, ["1"]),
    ({"range": {"a_time": {"gte": "2024-02-29", "lt": "2024-03-01"}}}, ["1"]),
    ({"range": {"a_date": {"gte": "2024-02-29"}}}, ["1"]),
    ({"match": {"a_text": "b"}}, ["1"]),
    ({"term": {"a_name.keyword": "Ann"}}, ["1"]),
    ({"term": {"a_mood": "sad"}}, ["1"]),
    ({"term": {"texts.keyword": "d"}}, ["3"]),
    ({"term": {"numbers": 4}}, ["3"]),
    ({"term": {"a_jsonb.x.y": 1}}, ["2"]),
    ({"term": {"ints": 5}}, ["1"]),
    ({"term": {"prices": 2.5}}, ["1", "2"]),
    ({"term": {"slots": 8}}, ["1"]),
    ({"term": {"spans": "2099-01-01"}}, ["1"]),
    ({"exists": {"field": "a_bool"}}, ["1", "2"]),
]


def run(search: Search, select: str, key: list[str] | None = None, **config: Any) -> str | None:
    """Make a pipeline of it, run it once, and give its error."""
    pipeline = search.add("t", source_query=select, key=key or ["id"], **config)
    error: str | None = search.lab.run(pipeline)["said"]
    return error


def raw(search: Search) -> dict[str, str]:
    """The documents as the text that the server gives back."""
    search.http.post(f"/{search.name('t')}/_refresh").raise_for_status()
    answer = search.http.post(f"/{search.name('t')}/_search", json={"size": 1000}).raise_for_status()
    query = "SELECT h ->> '_id', h -> '_source' FROM json_array_elements(%s::json #> '{hits,hits}') AS h"
    text = "SELECT a, b::text FROM (" + query + ") AS s (a, b)"
    return dict(search.lab.sql(text, answer.text))


def found(search: Search, query: dict[str, Any]) -> list[str]:
    """The ids that a query finds."""
    search.http.post(f"/{search.name('t')}/_refresh").raise_for_status()
    answer = search.http.post(f"/{search.name('t')}/_search", json={"query": query}).raise_for_status()
    return sorted(hit["_id"] for hit in answer.json()["hits"]["hits"])


@pytest.fixture
def typed(search: Search) -> Search:
    """A column of each type: all NULL in row 0, then the values."""
    search.lab.sql(MOOD)
    columns = ", ".join(f"{name} {type_}" for name, (type_, *_) in TYPES.items())
    search.lab.sql(f"CREATE TABLE content.every (id int, {columns})")
    for n in range(6):
        values = {name: values[n - 1] for name, (_, values, _, _) in TYPES.items() if 0 < n <= len(values)}
        names, marks = ", ".join(["id", *values]), ", ".join(["%s"] * (len(values) + 1))
        search.lab.sql(f"INSERT INTO content.every ({names}) VALUES ({marks})", str(n), *values.values())
    assert run(search, "SELECT * FROM content.every") is None
    return search


def test_every_type_is_kept_exactly_and_mapped_on_purpose(typed: Search) -> None:
    documents = raw(typed)
    assert json.loads(documents["0"]) == {"id": 0} | dict.fromkeys(TYPES)
    for name, (_, values, expected, _) in TYPES.items():
        for n, text in enumerate(expected, 1):
            got = typed.lab.value("SELECT (%s::json -> %s)::text", documents[str(n)], name)
            assert (name, got) == (name, text)
        assert len(values) == len(expected)
    [index] = typed.indexes("t").values()
    mapping = index["mappings"]
    assert mapping["dynamic"] == "strict"
    derived = {name: {k: v for k, v in mapping["properties"][name].items() if k != "properties"} for name in TYPES}
    assert derived == {name: mapping for name, (_, _, _, mapping) in TYPES.items()}


def test_every_kind_is_found(typed: Search) -> None:
    for query, ids in FOUND:
        assert (query, found(typed, query)) == (query, ids)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("type_", "first", "second", "id_"),
    [
        ("numeric", "1.00", "1.0", "1"),
        ("numeric", "100", "1e2", "100"),
        ("double precision", "-0", "0", "0"),
        ("real", "0.1", "0.10", "0.1"),
        ("char(5)", "ab", "ab ", "ab"),
        ("bytea", "\\x00ff", "\\x00ff", "00ff"),
        ("timestamptz", "2024-01-01 03:00+03", "2024-01-01 00:00+00", "2024-01-01 00:00:00+00"),
        ("inet", "10.0.0.1/32", "10.0.0.1", "10.0.0.1/32"),
        ("text", "ё 𝄞/?#%&|\\ ", "ё 𝄞/?#%&|\\ ", "ё 𝄞/?#%&|\\ "),
        ("int[]", "{1,2}", "{1,2}", "{1,2}"),
        ("daterange", "[2024-01-01,2024-01-02]", "[2024-01-01,2024-01-03)", "[2024-01-01,2024-01-03)"),
    ],
)
def test_a_key_of_any_kind_is_one_stable_id(search: Search, type_: str, first: str, second: str, id_: str) -> None:
    search.lab.sql(f"CREATE TABLE content.k (id {type_}, n int)")
    search.lab.sql("INSERT INTO content.k VALUES (%s, 1)", first)
    pipeline = search.add("t", source_table="content.k", source_query=None, key=["id"])
    assert search.lab.run(pipeline)["error"] is None
    search.lab.sql("UPDATE content.k SET id = %s, n = 2", second)
    assert search.lab.run(pipeline)["rows_written"] == 1
    assert {key: document["n"] for key, document in search.documents("t").items()} == {id_: 2}
    search.lab.sql("DELETE FROM content.k")
    assert search.lab.run(pipeline, allow_deletes=True)["rows_deleted"] == 1
    assert search.documents("t") == {}


@pytest.mark.parametrize("type_", ["interval", "jsonb", "numrange", "numeric[]"])
def test_a_key_whose_equal_values_have_several_texts_is_refused(search: Search, type_: str) -> None:
    error = run(search, f"SELECT CAST(NULL AS {type_}) AS id")
    assert error == (
        f"key column id is of type {type_}, in which one value can be written in several ways"
        " — cast it in the query: CAST(id AS text)"
    )


@pytest.mark.parametrize(("value", "size"), [("repeat('é', 257)", 514), ("''", 0)])
def test_a_key_that_is_no_id_is_named(search: Search, value: str, size: int) -> None:
    error = run(search, f"SELECT 'a' AS id UNION ALL SELECT {value}")
    assert f"has {size} bytes as an _id, and {search.server} takes 1 to 512 — choose a shorter key" in str(error)


def test_a_key_of_512_bytes_is_an_id(search: Search) -> None:
    assert run(search, "SELECT repeat('é', 256) AS id") is None
    assert list(search.documents("t")) == ["é" * 256]


def test_an_index_needs_a_key(search: Search) -> None:
    pipeline = search.add("t", source_query="SELECT 1 AS id", key=[])
    assert "set key: [column, …]" in search.lab.run(pipeline)["said"]


def test_a_cursor_that_is_no_date_of_elasticsearch(search: Search) -> None:
    select = (
        "SELECT n AS id, CASE n WHEN 1 THEN timestamptz '-infinity' ELSE now() END AS at FROM generate_series(1, 3) n"
    )
    assert run(search, select, mode="incremental", incremental_key="at", incremental_id_key="id", batch_size=1) is None
    assert search.documents("t")["1"] == {"id": 1, "at": None}


# ── mappings ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_mapping_and_analysers_may_be_given(search: Search) -> None:
    mapping = {"title": {"type": "text", "analyzer": "plain"}, "code": {"type": "keyword"}}
    settings = {
        "number_of_shards": 2,
        "refresh_interval": "30s",
        "analysis": {"analyzer": {"plain": {"tokenizer": "standard", "filter": ["lowercase", "stop"]}}},
    }
    select = "SELECT 1 AS id, 'The LOUD one' AS title, 1e400::numeric AS code"
    assert run(search, select, mapping=mapping, settings=settings) is None
    assert found(search, {"match": {"title": "loud"}}) == ["1"]
    assert found(search, {"match": {"title": "the"}}) == []
    assert found(search, {"term": {"code": "1" + "0" * 400}}) == ["1"]
    [index] = search.indexes("t").values()
    assert index["settings"]["index"]["number_of_shards"] == "2"
    assert index["settings"]["index"]["refresh_interval"] == "30s"


def test_a_list_of_objects_that_the_query_builds_is_nested(search: Search) -> None:
    select = """SELECT 1 AS id, jsonb_agg(jsonb_build_object('name', n, 'role', r)) AS people
                FROM (VALUES ('Ann', 'actor'), ('Bob', 'writer')) AS v (n, r)"""
    assert run(search, select) is None
    both = [{"term": {"people.name.keyword": "Ann"}}, {"term": {"people.role.keyword": "writer"}}]
    assert found(search, {"nested": {"path": "people", "query": {"bool": {"must": both[:1]}}}}) == ["1"]
    assert found(search, {"nested": {"path": "people", "query": {"bool": {"must": both}}}}) == []


def test_json_that_is_no_object_needs_a_mapping(search: Search) -> None:
    values = ["[1, 2]", '"text"', "7", '{"a": 1}']
    rows = ", ".join(f"({n}, '{value}'::jsonb)" for n, value in enumerate(values))
    select = f"SELECT * FROM (VALUES {rows}) AS v (id, doc)"
    error = run(search, select)
    assert f"{search.server} refused" in str(error)
    assert "map the field otherwise (mapping) and run again" in str(error)
    search.lab.sql("""UPDATE etl.etl_pipelines SET mapping = '{"doc": {"type": "object", "enabled": false}}'""")
    assert search.lab.run(search.pipeline("t"))["error"] is None
    assert raw(search) == {str(n): f'{{"id":{n},"doc":{value}}}' for n, value in enumerate(values)}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"mapping": {"titel": {"type": "text"}}}, "mapping names titel, which the query does not give"),
        ({"mapping": {"title": {"type": "texxt"}}}, "correct mapping and settings of the pipeline"),
        ({"settings": {"analysis": {"analyzer": {"a": {"tokenizer": "none"}}}}}, "correct mapping and settings"),
    ],
)
def test_a_wrong_mapping_is_explained(search: Search, config: dict[str, Any], expected: str) -> None:
    assert expected in str(run(search, "SELECT 1 AS id, 'a' AS title", **config))
    assert search.indexes("t") == {}


@pytest.mark.parametrize("name", ["a.b", "_id", " "])
def test_a_column_that_is_no_field_is_explained(search: Search, name: str) -> None:
    assert "cannot be a field of an index — give it another name" in str(run(search, f'SELECT 1 AS id, 2 AS "{name}"'))


@pytest.mark.scenario(37)
def test_one_document_of_a_thousand_that_does_not_fit_is_named_and_the_checkpoint_stays(search: Search) -> None:
    search.lab.sql(
        "CREATE TABLE content.p AS SELECT n AS id, now() AS at, '{}'::jsonb AS doc FROM generate_series(1, 3000) n"
    )
    config = {"mode": "incremental", "incremental_key": "at", "incremental_id_key": "id", "batch_size": 1000}
    pipeline = search.add("t", source_table="content.p", source_query=None, key=["id"], **config)
    search.lab.sql("UPDATE content.p SET doc = '7' WHERE id = 1555")
    run = search.lab.run(pipeline)
    assert (run["status"], search.lab.status(pipeline)) == ("FAILED", "FAILED")
    assert f"{search.server} refused 1 document(s): 1555: " in run["said"]
    assert search.lab.value("SELECT coalesce(last_processed_id, '0')::int FROM etl.etl_state") <= 1000
    search.lab.sql("UPDATE content.p SET doc = '{}' WHERE id = 1555")
    assert search.lab.run(pipeline)["error"] is None
    assert search.documents("t").keys() == {str(n) for n in range(1, 3001)}
