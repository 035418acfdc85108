"""The second layer of the SQL guard: what a query really calls and reads, on a real Postgres."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Cursor, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.corpora import FIXTURES
from tests.patience import promptly
from tests.support import Lab
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Finding
from vitrina.meta.db import connect
from vitrina.sources.postgres.kind import ELSEWHERE
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sql.vet import called

SCHEMAS = ["content", "ugc"]
MOST_STATEMENTS = 8


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.open("vitrina_template") as lab:
        lab.sql(FIXTURES.read_text())
        yield lab


@pytest.fixture
def reader(lab: Lab) -> Iterator[PostgresReader]:
    with lab.connections.read_warehouse() as reader:
        yield reader


def findings(reader: PostgresReader, query: str, *functions: str) -> list[Finding]:
    """Of the second layer alone."""
    return called(reader.conn, reader.settings, query, schemas=SCHEMAS, functions=functions)


def refused(reader: PostgresReader, query: str, *functions: str) -> list[str]:
    """What is refused, by name."""
    return [f.where for f in findings(reader, query, *functions) if f.level == "error"]


def test_a_plain_query_has_no_findings(reader: PostgresReader) -> None:
    assert findings(reader, "SELECT id, lower(title) AS t FROM content.film_work WHERE rating > 5") == []


def test_a_view_shows_the_tables_behind_it(reader: PostgresReader) -> None:
    assert refused(reader, "SELECT login FROM ugc.leak_deeper") == ["auth.users"]


def test_a_catalogue_table_is_refused_without_the_parser(reader: PostgresReader) -> None:
    assert refused(reader, "SELECT relname FROM pg_class") == ["pg_catalog.pg_class"]


def test_the_parser_off_dml_in_a_cte_is_not_understood_and_so_refused(reader: PostgresReader) -> None:
    with pytest.raises(ConfigError, match="cannot be understood"):
        findings(reader, "WITH d AS (DELETE FROM ugc.likes RETURNING *) SELECT * FROM d")


def test_materialised_views_and_foreign_tables_are_tables(lab: Lab, reader: PostgresReader) -> None:
    lab.sql(
        "CREATE EXTENSION postgres_fdw; CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw;"
        " CREATE FOREIGN TABLE content.far (id integer) SERVER far"
    )
    assert refused(reader, "SELECT v.votes, f.id FROM ugc.votes v, content.far f") == []


def test_a_user_function_is_refused_with_the_setting_that_allows_it(reader: PostgresReader) -> None:
    [found] = findings(reader, "SELECT content.twice(2) AS n")
    assert (found.level, found.where) == ("error", "content.twice")
    assert "VITRINA_ALLOWED_FUNCTIONS" in found.remedy


def test_a_named_function_is_allowed_and_no_other(reader: PostgresReader) -> None:
    query = "SELECT content.twice(content.wipe()) AS n"
    assert refused(reader, query, "content.twice") == ["content.wipe"]
    assert refused(reader, query, "content.twice", "content.wipe") == []


def test_an_operator_is_judged_by_its_function(reader: PostgresReader) -> None:
    query = "SELECT id FROM content.film_work WHERE id = title"
    [found] = findings(reader, query)
    assert found.message == "operator public.= calls public.same, which is user-defined"
    assert refused(reader, query, "public.same") == []


def test_a_domain_is_judged_by_its_checks_however_deep(reader: PostgresReader) -> None:
    assert refused(reader, "SELECT x::content.boxed AS b FROM (VALUES ('{}'::text)) AS v (x)") == ["content.touch"]


def test_a_policy_is_judged_as_it_holds_for_the_reader(reader: PostgresReader) -> None:
    assert refused(reader, "SELECT id FROM content.guarded") == ["content.touch"]
    assert refused(reader, "SELECT id FROM content.tagged") == []


def test_a_type_is_judged_by_the_functions_behind_it(reader: PostgresReader) -> None:
    assert refused(reader, "SELECT content.span(1, 2) AS s") == ["content.gap"]
    assert refused(reader, "SELECT content.years(1, 2) AS s") == []


def test_a_virtual_column_is_judged_by_its_expression(lab: Lab, reader: PostgresReader) -> None:
    if reader.conn.info.server_version < 180000:
        pytest.skip("virtual generated columns came with Postgres 18")
    lab.sql("CREATE TABLE content.virtual (id integer, n integer GENERATED ALWAYS AS (pg_encoding_max_length(id)))")
    assert refused(reader, "SELECT n FROM content.virtual") == ["pg_catalog.pg_encoding_max_length"]


def test_what_never_repeats_says_why_it_is_refused(reader: PostgresReader) -> None:
    [found] = findings(reader, "SELECT gen_random_uuid() AS id")
    assert "the mart would never equal the query" in found.message


@pytest.mark.parametrize("clock", ["now()", "CURRENT_DATE", "LOCALTIMESTAMP(3)", "age(created)", "'today'::date"])
def test_the_clock_is_a_warning(reader: PostgresReader, clock: str) -> None:
    found = findings(reader, f"SELECT {clock} AS t FROM content.film_work")
    assert [f.level for f in found] == ["warning"]


@pytest.mark.parametrize("harmless", ["CURRENT_USER", "version()", "pg_typeof(1)", "age(created, modified)"])
def test_what_only_looks_like_it_passes(reader: PostgresReader, harmless: str) -> None:
    assert findings(reader, f"SELECT {harmless} AS t FROM content.film_work") == []


@pytest.mark.parametrize(
    "name", [":funcid 1 ", "{FUNCEXPR ", "x" * 63, "{" * 63, "\\", "(o 1259)", ":relid 1259 ", "я" * 31]
)
def test_odd_names_neither_hide_a_call_nor_fake_one(reader: PostgresReader, name: str) -> None:
    quoted = sql.Identifier(name).as_string(None)
    source = f"(SELECT 1 AS {quoted}) AS {quoted}"
    assert findings(reader, f"SELECT {quoted} FROM {source}") == []
    assert refused(reader, f"SELECT content.wipe() AS {quoted}, {quoted}.* FROM {source}") == ["content.wipe"]


def test_nothing_of_the_query_is_executed(lab: Lab, reader: PostgresReader) -> None:
    with promptly(3):
        refused(reader, "SELECT pg_sleep(600), content.touch(1), 1 / 0 AS n FROM content.view_sleeps")
    assert lab.value("SELECT count(*) FROM content.film_work WHERE title IN ('touched', 'wiped')") == 0


def test_all_that_is_wrong_is_said_at_once(reader: PostgresReader) -> None:
    with pytest.raises(ConfigError) as error:
        reader.vet("SELECT random() AS r, login FROM content.leak", schemas=SCHEMAS)
    assert "auth.users" in str(error.value)
    assert "pg_catalog.random" in str(error.value)


def test_the_connection_is_as_before(reader: PostgresReader) -> None:
    findings(reader, "SELECT 1 AS a")
    shown = reader.conn.execute(
        "SELECT current_setting('debug_print_rewritten') AS d, current_setting('search_path') AS s"
    )
    assert shown.fetchall() == [{"d": "off", "s": "pg_catalog,pg_temp"}]


def test_a_check_asks_the_server_a_handful_of_times(reader: PostgresReader, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT f.id, count(*) AS n FROM content.film_work f JOIN ugc.ratings r ON r.film_id = f.id GROUP BY f.id"
    asked, execute = [], Cursor.execute

    def counted(cursor: Cursor[Any], *arguments: Any, **named: Any) -> Cursor[Any]:
        asked.append(arguments[0])
        return execute(cursor, *arguments, **named)

    monkeypatch.setattr(Cursor, "execute", counted)
    findings(reader, query)
    assert 0 < len(asked) <= MOST_STATEMENTS, len(asked)


def test_the_reader_keeps_the_trees_out_of_the_servers_log(reader: PostgresReader) -> None:
    row = reader.conn.execute("SELECT has_parameter_privilege('log_min_messages', 'SET') AS may").fetchone()
    assert row == {"may": True}


def test_a_role_without_any_of_our_grants_can_be_a_source(lab: Lab) -> None:
    role = f"plain_{conninfo_to_dict(lab.conninfo)['dbname']}"
    lab.sql(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA content TO {role}")
    lab.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA content TO {role}")
    with connect(make_conninfo(lab.conninfo, user=role), "test") as conn:
        reader = PostgresReader("plain", ELSEWHERE, conn, lab.connections.reading)
        assert refused(reader, "SELECT id FROM content.film_work") == []
        assert refused(reader, "SELECT login, random() AS r FROM content.leak") == ["auth.users", "pg_catalog.random"]
    lab.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_run_of_a_refused_query_fails_and_names_the_reason(lab: Lab) -> None:
    run = lab.run(lab.add(name="leak", target_table="analytics.leak", source_table="content.leak", key=["id"]))
    assert (run["status"], "auth.users" in run["said"]) == ("FAILED", True)
    assert lab.value("SELECT to_regclass('analytics.leak')") is None


def test_a_run_that_reads_the_clock_says_so(lab: Lab) -> None:
    query = "SELECT id FROM content.film_work WHERE created < now()"
    pipeline = lab.add(name="clock", target_table="analytics.clock", source_query=query, key=["id"])
    assert lab.run(pipeline)["status"] == "SUCCESS"
    assert any(e["event"] == "finding" and e["fields"]["code"] == "reads_clock" for e in lab.events(pipeline))


def test_a_run_may_call_what_the_settings_name(lab: Lab) -> None:
    query = "SELECT id, content.twice(1) AS two FROM content.film_work"
    pipeline = lab.add(name="twice", target_table="analytics.twice", source_query=query, key=["id"])
    assert lab.run(pipeline)["status"] == "FAILED"
    lab.configure(allowed_functions=["content.twice"])
    assert lab.run(pipeline)["status"] == "SUCCESS"
    lab.configure(allowed_functions=[])


def test_a_pushed_down_query_writes_nothing_even_with_the_rights_of_others(lab: Lab) -> None:
    insert = "INSERT INTO analytics.pushed SELECT * FROM etl.read_as_reader(%s, '{}') AS t (id integer)"
    with connect(lab.connections.warehouse, "test") as conn:
        conn.execute("CREATE TABLE analytics.pushed (id integer)")
        with pytest.raises(Exception, match="read-only transaction"):
            conn.execute(insert, ["SELECT content.wipe()"])
        with conn.transaction():
            conn.execute(insert, ["SELECT 1"])
            conn.execute("INSERT INTO analytics.pushed VALUES (2)")  # the statement's own transaction still writes
    assert lab.value("SELECT count(*) FROM analytics.pushed") == 2


def test_a_stacked_statement_is_refused_by_copy_too(lab: Lab) -> None:
    smuggled = sql.SQL("SELECT 1 AS a) TO STDOUT; COMMIT; SELECT 2; COPY (SELECT 1 AS a")
    with (
        lab.connections.read_warehouse() as reader,
        pytest.raises(ConfigError, match="multiple commands"),
        reader.copy_out(smuggled, "text") as copy,
    ):
        list(copy)


@pytest.mark.parametrize("type_", ["integer", "timestamptz", "numeric(3,1)", "int4range", "json[]"])
def test_whether_a_text_is_a_value_of_a_type_that_every_server_has_may_be_asked(
    reader: PostgresReader, type_: str
) -> None:
    if reader.conn.info.server_version < 160_000:
        pytest.skip("this server does not know pg_input_is_valid")
    query = f"SELECT id, pg_input_is_valid(title, '{type_}') AS ok FROM content.film_work"
    assert findings(reader, query) == []
    reason = "SELECT id, message FROM content.film_work, pg_input_error_info(title, '{}')"
    assert findings(reader, reason.format(type_)) == []
    assert findings(reader, reason.format("regclass")) != []
    assert findings(reader, reason.format("content.nothing")) != []
    assert findings(reader, reason.replace("'{}'", "title")) != []
