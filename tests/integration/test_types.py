"""Every Postgres type and every odd name: loaded, left alone when unchanged, noticed when only the image changes."""

from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support import Lab
from vitrina.domain.pipeline import Pipeline

# A column's type, a value, and another one: for most an unequal one, for IMAGES an equal one with another image.
VALUES = {
    "smallint": ("'-32768'", "'32767'"),
    "integer": ("'-2147483648'", "'0'"),
    "bigint": ("'9223372036854775807'", "'1'"),
    "numeric(5,2)": ("'1.1'", "'1.11'"),
    "money": ("'12.50'", "'12.51'"),
    "text": ("e'a\\tb\\\\n\"{,}'' ü'", "''"),
    "character varying(5)": ("'ab'", "'ab '"),
    "character(5)": ("'ab'", "'b'"),
    "bpchar": ("'ab'", "'b'"),
    '"char"': ("'x'", "''"),
    "name": ("'x'", "'y'"),
    "bytea": ("'\\x00ff5c'", "''"),
    "timestamp without time zone": ("'2024-02-29 12:00:00.000001'", "'-infinity'"),
    "timestamp(0) without time zone": ("'2024-02-29 12:00:00'", "'infinity'"),
    "timestamp with time zone": ("'infinity'", "'0044-03-15 12:00:00+01 BC'"),
    "date": ("'infinity'", "'5874897-12-31'"),
    "time without time zone": ("'24:00:00'", "'00:00:00'"),
    "time with time zone": ("'12:00+00'", "'13:00+01'"),
    "interval day to second(3)": ("'1 day'", "'2 days'"),
    "boolean": ("true", "false"),
    "mood": ("'so, so'", "'{sad}'"),
    "mood[]": ("array['so, so', null]::public.mood[]", "'{}'"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "'ffffffff-0000-0000-0000-000000000000'"),
    "text[]": ("array['a', null, 'NULL', '', '{,}']", "array[['a'],['b']]"),
    "integer[]": ("'[0:1]={1,2}'", "'{1,2}'"),
    "int4range": ("'[1,5)'", "'empty'"),
    "int4multirange": ("'{[1,5),[7,9)}'", "'{}'"),
    "tstzrange": ("'[2024-01-01,infinity)'", "'(,)'"),
    "inet": ("'10.0.0.1/24'", "'10.0.0.1'"),
    "cidr": ("'10.0.0.0/24'", "'10.0.0.0/25'"),
    "macaddr": ("'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'"),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'", "'08:00:2b:01:02:03:04:06'"),
    "bit(3)": ("'101'", "'100'"),
    "bit varying(5)": ("'101'", "'1010'"),
    "tsvector": ("'a:1 b:2'", "'a'"),
    "tsquery": ("'a & b'", "'a'"),
    "point": ("'(1,2)'", "'(1,3)'"),
    "lseg": ("'[(0,0),(1,1)]'", "'[(0,0),(1,2)]'"),
    "polygon": ("'((0,0),(1,1),(1,0))'", "'((0,0),(1,1),(2,0))'"),
    "jsonpath": ("'$.a'", "'$.b'"),
    "pg_lsn": ("'0/1'", "'0/2'"),
}
IMAGES = {
    "numeric": ("'1.0'", "'1.00'"),
    "double precision": ("'0'", "'-0'"),
    "real": ("'0'", "'-0'"),
    "interval": ("'1 day'", "'24:00:00'"),
    "json": ("'{\"a\":1}'", "'{\"a\": 1}'"),
    "jsonb": ("'{\"a\": 1.0}'", "'{\"a\": 1.00}'"),
    "numeric[]": ("'{{1.0},{null}}'", "'{{1.00},{null}}'"),
    "double precision[]": ("'{0,NaN}'", "'{-0,NaN}'"),
    "numrange": ("'[1.0,2)'", "'[1.00,2)'"),
    "nummultirange": ("'{[1.0,2)}'", "'{[1.00,2)}'"),
    "pair": ("'(1.0,\"a, b\")'", "'(1.00,\"a, b\")'"),
    "pair[]": ("'{\"(1.0,a)\"}'", "'{\"(1.00,a)\"}'"),
    "box": ("'(1,1),(0,0)'", "'(2,2),(1,1)'"),  # equal in area, which is what = asks
    "circle": ("'<(0,0),1>'", "'<(1,1),1>'"),
}
FLOATS = {
    "double precision": ("'NaN'", "'-Infinity'"),
    "real": ("'Infinity'", "'NaN'"),
    "numeric": ("'NaN'", "'-0.000'"),
}


def make_types(lab: Lab) -> dict[str, tuple[str, str]]:
    """The types of a schema, and of the extensions that this server has: their columns of equal values."""
    lab.sql("CREATE TYPE public.mood AS ENUM ('so, so', '{sad}'); CREATE TYPE public.pair AS (n numeric, t text)")
    images = dict(IMAGES)
    available = {name for (name,) in lab.sql("SELECT name FROM pg_available_extensions")}
    if "citext" in available:
        lab.sql("CREATE EXTENSION citext")
        images["citext"] = ("'Ab'", "'aB'")
    return images


def make_rows(lab: Lab, columns: dict[str, tuple[str, str]]) -> Pipeline:
    """Table content.every: a column c<n> a type, and a row n of first values for each column."""
    types = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(columns))
    lab.sql(f"CREATE TABLE content.every (id int PRIMARY KEY, {types})")
    first = ", ".join(f"{value}::{type_}" for type_, (value, _) in columns.items())
    lab.sql(f"INSERT INTO content.every SELECT n, {first} FROM generate_series(0, {len(columns) - 1}) n")
    lab.sql("INSERT INTO content.every (id) VALUES (-1)")
    return lab.add(source_query="SELECT * FROM content.every", key=["id"], batch_size=10)


def change_each(lab: Lab, columns: dict[str, tuple[str, str]]) -> None:
    """Row n gets the second value in column n."""
    for n, (_, other) in enumerate(columns.values()):
        lab.sql(f"UPDATE content.every SET c{n} = {other} WHERE id = {n}")


def written(lab: Lab, pipeline: Pipeline) -> tuple[Any, ...]:
    run = lab.run(pipeline)
    assert run["error"] is None
    lab.assert_equal(pipeline)
    return run["rows_written"], run["rows_deleted"]


@pytest.mark.scenario(56)
@pytest.mark.parametrize("publish", ["batches", "atomic"])
def test_every_type_is_created_loaded_left_alone_and_updated(lab: Lab, publish: str) -> None:
    columns = make_types(lab) | VALUES
    pipeline = make_rows(lab, columns)
    lab.sql("UPDATE etl.etl_pipelines SET publish = %s", publish)
    assert written(lab, pipeline) == (len(columns) + 1, 0)
    assert written(lab, pipeline) == (0, 0)
    change_each(lab, columns)
    assert written(lab, pipeline) == (len(columns), 0)
    assert written(lab, pipeline) == (0, 0)


def test_the_mart_gets_the_types_of_the_query(lab: Lab) -> None:
    columns = make_types(lab) | VALUES
    lab.run(make_rows(lab, columns))
    kept = lab.sql(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'analytics.mart'::regclass AND attnum > 1 ORDER BY attnum"
    )
    assert [type_ for (type_,) in kept] == list(columns)


def test_nan_and_infinity_are_values_like_any_other(lab: Lab) -> None:
    pipeline = make_rows(lab, FLOATS)
    assert written(lab, pipeline) == (4, 0)
    assert written(lab, pipeline) == (0, 0)
    change_each(lab, FLOATS)
    assert written(lab, pipeline) == (3, 0)


def test_a_domain_is_read_as_its_base_type(lab: Lab) -> None:
    lab.sql("CREATE DOMAIN public.score AS numeric(4,1) CHECK (value >= 0); CREATE DOMAIN public.label AS varchar(5)")
    lab.sql("CREATE TABLE content.scored (id public.label PRIMARY KEY, score public.score, scores public.score[])")
    lab.sql("INSERT INTO content.scored SELECT n, n, array[n] FROM generate_series(1, 9) n")
    pipeline = lab.add(source_query="SELECT * FROM content.scored", key=["id"], batch_size=2)
    assert written(lab, pipeline) == (9, 0)
    lab.sql("UPDATE content.scored SET score = 7.5, scores = '{7.5}' WHERE id < '4'")
    lab.sql("DELETE FROM content.scored WHERE id = '9'")
    assert written(lab, pipeline) == (3, 1)


def test_xml_is_kept_as_it_is(lab: Lab) -> None:
    try:
        lab.sql("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server is built without libxml")
    columns = {"xml": ("'<a/>'", "'<a></a>'")}
    pipeline = make_rows(lab, columns)
    assert written(lab, pipeline) == (2, 0)
    change_each(lab, columns)
    assert written(lab, pipeline) == (1, 0)


def test_hstore_is_kept_as_it_is(lab: Lab) -> None:
    if not lab.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'hstore'"):
        pytest.skip("this server has no hstore")
    lab.sql("CREATE EXTENSION hstore")
    pipeline = make_rows(lab, {"hstore": ("'a=>1, b=>NULL'", "'a=>2'")})
    assert written(lab, pipeline) == (2, 0)
    assert written(lab, pipeline) == (0, 0)


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────

ODD = [
    "",
    " ",
    "a",
    "A",
    "a,b",
    "{}",
    "{a}",
    '"',
    "'",
    "\\",
    "\\N",
    "NULL",
    "null",
    "%s",
    "$1",
    "ü",
    "日本",
    "a\nb",
    "\t",
]
KEYS: dict[str, list[Any]] = {
    "uuid": [f"{n:032x}" for n in range(9)],
    "integer": list(range(-4, 5)),
    "bigint": [n * 2**60 for n in range(-7, 7)],
    "text": ODD,
    "character varying(9)": ODD,
    "character(9)": ["", "a", "A", "a,b", "{}", '"', "'", "\\", "ü", "NULL"],
    '"char"': list("abcdefgh'\"\\"),
    "name": ["a", "A", "a,b", "{}", '"', "'", "\\", "ü", "NULL"],
    "numeric": ["0", "1.0", "1.01", "-5", "NaN", "1e30", "2.50", "Infinity", "3"],
    "double precision": ["0", "0.1", "-0.3", "NaN", "1e300", "Infinity", "2", "3", "4"],
    "timestamp with time zone": ["infinity", "-infinity", *(f"2024-01-0{n} 00:00:00.00000{n}+03" for n in range(1, 8))],
    "timestamp(3) without time zone": [f"2024-01-0{n} 00:00:00.00{n}" for n in range(1, 10)],
    "date": ["infinity", "0044-03-15 BC", *(f"2024-01-0{n}" for n in range(1, 8))],
    "interval": [f"{n} mons {n} days" for n in range(9)],
    "public.letter": ["c", "b,", "{a}", '"', "d", "e", "f", "g", "h"],
    "bytea": ["", "\\x00", "\\x5c", "\\xff", "\\x27", "\\x22", "\\x01", "\\x02", "\\x03"],
    "inet": ["10.0.0.1", "10.0.0.1/24", "::1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7"],
    "bit(4)": [f"{n:04b}" for n in range(9)],
    "money": [str(n) for n in range(9)],
    "jsonb": [f'{{"a": {n}.0}}' for n in range(9)],
    "int4range": [f"[{n},{n + 5})" for n in range(9)],
    "text[]": ["{}", "{a}", "{a,b}", '{"",NULL}', "{{a},{b}}", "{c}", "{d}", "{e}", "{f}"],
    "character(3)[]": ["{}", "{a}", "{a,b}", '{"",NULL}', "{abc}", "{abd}", "{d}", "{e}", "{f}"],
    "pair": ["(1,a)", '(1.5,"b,")', "(2,)", "(,x)", "(3,c)", "(4,d)", "(5,e)", "(6,f)", "(7,g)"],
}


def keyed_source(lab: Lab, type_: str) -> None:
    lab.sql("CREATE TYPE public.pair AS (n numeric, t text)")
    lab.sql("""CREATE TYPE public.letter AS ENUM ('c', 'b,', '{a}', '"', 'd', 'e', 'f', 'g', 'h')""")
    lab.sql(f"CREATE TABLE content.keyed (k {type_} PRIMARY KEY, n int, v int)")
    for n, key in enumerate(KEYS[type_]):
        lab.sql(f"INSERT INTO content.keyed VALUES (%s::text::{type_}, {n}, 0)", str(key))


def change_keyed(lab: Lab) -> None:
    """Three keys go, three are new, and three have other values."""
    lab.sql("DELETE FROM content.keyed WHERE n IN (0, 3, 6)")
    lab.sql("UPDATE content.keyed SET v = 1 WHERE n IN (1, 4, 7)")
    lab.sql("INSERT INTO content.keyed SELECT * FROM content.later")


@pytest.mark.parametrize("type_", list(KEYS))
def test_a_key_of_any_type_converges(lab: Lab, type_: str) -> None:
    keyed_source(lab, type_)
    lab.sql("CREATE TABLE content.later AS SELECT * FROM content.keyed WHERE n IN (2, 5, 8)")
    lab.sql("DELETE FROM content.keyed WHERE n IN (2, 5, 8)")
    pipeline = lab.add(source_query="SELECT * FROM content.keyed", key=["k"], batch_size=2)
    assert written(lab, pipeline) == (len(KEYS[type_]) - 3, 0)
    change_keyed(lab)
    assert written(lab, pipeline) == (6, 3)
    assert written(lab, pipeline) == (0, 0)


def test_a_boolean_key_converges(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.flags AS VALUES (true, 1), (false, 1)")
    pipeline = lab.add(source_query="SELECT column1 AS k, column2 AS v FROM content.flags", key=["k"], batch_size=1)
    assert written(lab, pipeline) == (2, 0)
    lab.sql("UPDATE content.flags SET column2 = 2 WHERE NOT column1; DELETE FROM content.flags WHERE column1")
    assert written(lab, pipeline) == (1, 1)


@pytest.mark.parametrize("key", [["a", "b"], ["c", "a", "b"], ["b", "c"]])
def test_a_composite_key_converges(lab: Lab, key: list[str]) -> None:
    lab.sql("CREATE TABLE content.many (a text, b int, c date, v int)")
    lab.sql("""
        INSERT INTO content.many
        SELECT (array['a,', '"', ''])[1 + n % 3], n, date '2024-01-01' + n, 0 FROM generate_series(0, 29) n""")
    pipeline = lab.add(source_query="SELECT * FROM content.many", key=key, batch_size=4)
    assert written(lab, pipeline) == (30, 0)
    lab.sql("UPDATE content.many SET v = 1 WHERE b % 5 = 0; DELETE FROM content.many WHERE b % 5 = 1")
    lab.sql("INSERT INTO content.many SELECT 'x', n, date '2030-01-01', 0 FROM generate_series(0, 9) n")
    assert written(lab, pipeline) == (16, 6)
    assert written(lab, pipeline) == (0, 0)


@pytest.mark.parametrize(
    ("of_query", "of_mart"),
    [
        ("integer", "bigint"),
        ("bigint", "integer"),
        ("integer", "text"),
        ("text", "character varying(9)"),
        ("date", "timestamp with time zone"),
    ],
)
def test_a_key_may_have_another_type_in_the_mart(lab: Lab, of_query: str, of_mart: str) -> None:
    first = "date '2024-01-01' +" if of_query == "date" else ""
    lab.sql(f"CREATE TABLE content.keyed AS SELECT ({first} n)::{of_query} AS k, n AS v FROM generate_series(1, 9) n")
    lab.sql(f"CREATE TABLE analytics.mart (k {of_mart} PRIMARY KEY, v int)")
    pipeline = lab.add(source_query="SELECT * FROM content.keyed", batch_size=2)
    compare = f"SELECT k::{of_mart}, v FROM content.keyed"
    assert lab.run(pipeline)["rows_written"] == 9
    lab.sql("UPDATE content.keyed SET v = 0 WHERE v > 6; DELETE FROM content.keyed WHERE v = 1")
    run = lab.run(pipeline)
    assert (run["error"], run["rows_written"], run["rows_deleted"]) == (None, 3, 1)
    lab.assert_equal(pipeline.model_copy(update={"source_query": compare}))
    assert lab.run(pipeline)["rows_unchanged"] == 8


def test_a_mart_key_that_the_query_cannot_even_hold_is_deleted(lab: Lab) -> None:
    lab.sql("CREATE TABLE analytics.mart (k bigint PRIMARY KEY); INSERT INTO analytics.mart VALUES (5000000000), (1)")
    pipeline = lab.add(source_query="SELECT n AS k FROM generate_series(1, 3) n")
    assert written(
        lab, pipeline.model_copy(update={"source_query": "SELECT n::bigint AS k FROM generate_series(1, 3) n"})
    ) == (2, 1)


def test_a_key_that_the_mart_rounds_is_never_lost_in_silence(lab: Lab) -> None:
    lab.sql("CREATE TABLE content.fine AS SELECT n + 0.4 AS k, 0 AS v FROM generate_series(1, 5) n")
    lab.sql("CREATE TABLE analytics.mart (k integer PRIMARY KEY, v int)")
    pipeline = lab.add(source_query="SELECT * FROM content.fine", batch_size=2)
    lab.run(pipeline)
    lab.sql("UPDATE content.fine SET v = 1 WHERE k < 3")
    run = lab.run(pipeline)
    assert (run["error"], run["rows_written"]) == (None, 2)
    lab.sql("INSERT INTO content.fine VALUES (2.3, 7)")
    assert "a key twice: k = 2" in lab.run(pipeline)["said"]


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = [
    *("n", "k", "p", "c1", "c2", "t", "m", "s", "q", "d", "r", "w", "src", "diff", "put", "gone", "kind", "args", "x"),
    *("a b", 'a"b', "a'b", "%", "%s", "%(a)s", "$1", "{}", "{0}", "Upper", "select", "user", "ü", "a.b", "a,b", "\\"),
    *("position", "read", "written", "last_position", "value", "query", "oid", "ctid2", "row"),
]


def named_source(lab: Lab, key: str) -> Pipeline:
    names = sql.SQL(", ").join(sql.SQL("{} int").format(sql.Identifier(name)) for name in NAMES)
    lab.db.execute(sql.SQL("CREATE TABLE content.named ({})").format(names))
    values = ", ".join(["n"] * len(NAMES))
    lab.sql(f"INSERT INTO content.named SELECT {values} FROM generate_series(1, 9) n")
    return lab.add(source_query="SELECT * FROM content.named", key=[key], batch_size=2)


@pytest.mark.parametrize("key", ["n", "c1", "t", "q", "kind", 'a"b', "%s", "Upper"])
def test_a_column_may_have_any_name(lab: Lab, key: str) -> None:
    pipeline = named_source(lab, key)
    assert written(lab, pipeline) == (9, 0)
    lab.sql("UPDATE content.named SET x = 0 WHERE x > 6; DELETE FROM content.named WHERE x = 1")
    assert written(lab, pipeline) == (3, 1)


@pytest.mark.parametrize("key", ["n", "%s"])
def test_a_staged_column_may_have_any_name(lab: Lab, key: str) -> None:
    pipeline = named_source(lab, key)
    lab.sql("UPDATE etl.etl_pipelines SET publish = 'atomic'")
    assert written(lab, pipeline) == (9, 0)
    lab.sql("UPDATE content.named SET x = 0 WHERE x > 6; DELETE FROM content.named WHERE x = 1")
    assert written(lab, pipeline) == (3, 1)


def test_a_cursor_may_have_any_name(lab: Lab) -> None:
    pipeline = named_source(lab, "%s")
    lab.sql("UPDATE etl.etl_pipelines SET mode = 'incremental', incremental_key = 'n', incremental_id_key = %s", 'a"b')
    assert written(lab, pipeline) == (9, 0)


@pytest.mark.parametrize("name", ["vitrina_n", "vitrina_kind", "vitrina_value", "vitrina_id"])
def test_names_of_our_own_are_refused(lab: Lab, name: str) -> None:
    pipeline = lab.add(source_query=f"SELECT id, title AS {name} FROM content.film_work", key=["id"])
    assert f"column {name}" in lab.run(pipeline)["said"]
