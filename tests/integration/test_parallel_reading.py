"""What an engine's sessions at a Postgres are told, and what they are asked for, by the server itself."""

from contextlib import closing
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.support import Lab, wait_for
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.meta.db import connect, transaction
from vitrina.sources.spark import parallel
from vitrina.sources.spark.kind import PARALLEL, shown_parallel
from vitrina.sql.describe import describe

SLOW = "SELECT 1 AS id FROM (SELECT pg_sleep(30) AS slept OFFSET 0) AS x WHERE slept IS NOT NULL"
HERE = "postgresql://reader:s%26t@shop:5433/db"


def test_a_session_reads_as_ours_do_whatever_its_driver_has_sent(lab: Lab) -> None:
    """The driver sends the time zone of its machine; a role may not say how much of the disk it takes, and reads."""
    settings = lab.connections.reading
    with closing(connect(lab.conninfo, "snapshot")) as held, held.transaction():
        held.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        [name] = held.execute("SELECT pg_export_snapshot() AS name").fetchone().values()  # type: ignore[union-attr]
        begin = parallel._options(name, settings)["sessionInitStatement"]
        with closing(psycopg.connect(lab.connections.reader, options="-c TimeZone=Asia/Tokyo")) as conn:
            conn.execute(begin.encode())
            shown = "SELECT current_setting('TimeZone'), current_setting('search_path'), current_user"
            zone, path, user = conn.execute(shown).fetchone() or ()
    assert (zone, path, user) == ("UTC", settings["search_path"], "vitrina_reader")
    assert "temp_file_limit" not in parallel._jdbc(HERE, settings)


def given(lab: Lab, select: str) -> list[tuple[Any, ...]]:
    with closing(connect(lab.conninfo, "test")) as conn, transaction(conn, {}):
        asked = parallel._given(select, describe(conn, select))
        return [tuple(row.values()) for row in conn.execute(asked).fetchall()]


def test_blanks_of_a_padded_text_are_kept(lab: Lab) -> None:
    select = "SELECT 'a'::char(3) AS a, NULL::char(3) AS b, 'c '::bpchar AS c, ' d '::varchar(9) AS d"
    assert given(lab, select) == [("a  ", None, "c ", " d ")]


def test_an_array_of_several_dimensions_is_refused_with_a_remedy(lab: Lab) -> None:
    assert given(lab, "SELECT ARRAY[1, NULL] AS a, '{}'::int[] AS b, NULL::int[] AS c") == [("[1,null]", "[]", None)]
    with pytest.raises(ConfigError, match=r"tags has arrays of several dimensions.*read it from a source"):
        given(lab, "SELECT ARRAY[[id]] AS tags FROM (VALUES (1)) AS t (id)")


def test_a_key_that_is_not_split_is_not_asked_for_its_ends(lab: Lab) -> None:
    """It would be read as a whole, and sorted, for nothing."""
    select = "SELECT 1 / (n - n) AS id, n::numeric AS code FROM (VALUES (1)) AS t (n)"
    with closing(connect(lab.conninfo, "test")) as conn, transaction(conn, {}):
        columns = describe(conn, select)
        assert parallel._ranges(conn, select, columns, "code", 8) == ["true"]
        assert parallel._ranges(conn, select, columns, "id", 1) == ["true"]
        with pytest.raises(psycopg.DataError):
            parallel._ranges(conn, select, columns, "id", 2)


def test_what_asks_for_the_ends_of_a_key_is_cancelled(lab: Lab) -> None:
    """It is another session than the reader's own."""
    app = lab.connections.settings
    with closing(connect(lab.conninfo, "reader")) as conn:
        reader = parallel.ParallelPostgres("wide", PARALLEL.abilities, conn, {}, lab.conninfo, app)
        ending = Thread(target=cancel_once_asked, args=(lab, reader))
        ending.start()
        with pytest.raises(RetryableError, match="canceling"), reader.reading_in(None, SLOW, ["id"]):
            pass
        ending.join()
    assert reader.holding == []


def cancel_once_asked(lab: Lab, reader: parallel.ParallelPostgres) -> None:
    """As a run does that is to end."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    wait_for(lambda: lab.sql(asked) == [(1,)])
    reader.cancel()


def test_an_address_is_carried_over_whole() -> None:
    where = parallel._jdbc(f"{HERE}?options=-c%20vitrina.tenant%3D7&sslmode=require&application_name=x", {})
    told = parse_qs(urlsplit(where.removeprefix("jdbc:")).query)
    assert where.startswith("jdbc:postgresql://shop:5433/db?")
    assert (told["user"], told["password"], told["sslmode"]) == (["reader"], ["s&t"], ["require"])
    assert told["options"][0].startswith("-c vitrina.tenant=7 -c ")
    assert parallel._jdbc("postgresql://reader@[::1]:5433/db", {}).startswith("jdbc:postgresql://[::1]:5433/db?")


@pytest.mark.parametrize(
    "url", [f"{HERE}?sslrootcert=/ca.pem", "postgresql://a,b/db", f"{HERE}?target_session_attrs=standby", "dbname=x"]
)
def test_what_is_not_carried_over_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        parallel._jdbc(url, {})


def test_a_scheme_may_be_written_in_capitals() -> None:
    assert PARALLEL.shown(f"Spark+PostgreSQL{HERE.removeprefix('postgresql')}") == shown_parallel(f"spark+{HERE}")
