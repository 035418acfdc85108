"""Capture with the rights that a team has: an owner and who streams, what a DBA has made, what a service calls it."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import pq

from tests.acceptance.client import vitrina
from tests.managed import VERSIONS, Managed, managed
from tests.patience import wait_for
from vitrina.capture.installation import uncovered
from vitrina.capture.wal import WalTap
from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.meta.db import connect
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.services import PLAIN, SERVICES

TABLES = "public.orders,public.lines"
WHOLE = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
LEFT = """SELECT (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_replication_slots),
    (SELECT count(*) FROM pg_namespace WHERE nspname = 'vitrina_capture')"""


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Managed]:
    with managed(request.param, wal_level="logical") as server:
        yield server


@pytest.fixture(scope="module")
def plain() -> Iterator[Managed]:
    with managed("18") as server:
        yield server


def set_up(server: Managed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop whose tables belong to `app`, a login that streams, one that only reads, and a house elsewhere."""
    server.run("CREATE DATABASE shop", "CREATE DATABASE house")
    server.user("app")
    server.user("streamer", "REPLICATION")
    server.user("reader")
    server.run("GRANT CREATE ON DATABASE shop TO app", "GRANT CREATE ON SCHEMA public TO app", database="shop")
    tables = "CREATE TABLE orders (id int PRIMARY KEY, paid numeric)", "CREATE TABLE lines (id int PRIMARY KEY)"
    server.run("SET ROLE app", *tables, database="shop")
    monkeypatch.setenv("VITRINA_DATABASE_URL", server.inside("house", "postgres"))
    monkeypatch.setenv("VITRINA_SOURCES__SHOP", server.address("shop", "reader"))
    vitrina("migrate")


@pytest.fixture
def shop(server: Managed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Managed]:
    set_up(server, monkeypatch)
    monkeypatch.setenv("VITRINA_CAPTURE_OWNERS__SHOP", server.address("shop", "app"))
    monkeypatch.setenv("VITRINA_CAPTURE_SOURCES__SHOP", server.address("shop", "streamer"))
    yield server
    server.clear()


def install(*arguments: str, expect: int = 0, tables: str = TABLES) -> str:
    said = vitrina("capture", "install", "--source", "shop", "--tables", tables, "--yes", *arguments, expect=expect)
    return said.out + said.err


def captured(server: Managed) -> Capture:
    with connect(server.inside("house", "postgres"), "test") as meta:
        found = CaptureRepo(meta).find("shop")
    assert found
    return found


def streamed(server: Managed) -> int:
    """How many changes who streams can read."""
    tap, capture = WalTap(server.address("shop", "streamer")), captured(server)
    try:
        tap.open(capture)
        server.run("INSERT INTO orders VALUES (1, 2)", "DELETE FROM orders", database="shop")
        changes = 0
        while changes < 2:
            chunk = tap.poll(5)
            assert chunk, "nothing comes"
            changes += len(chunk.changes)
        return changes
    finally:
        tap.close()


def test_the_owner_makes_what_another_streams(shop: Managed) -> None:
    said = install()
    assert len(said.splitlines()) <= 10, said
    assert 'CREATE PUBLICATION "vitrina_shop_' in said
    assert "to be run as app: 1 statement, and its slot as streamer" in said
    assert '"public"."orders"' in said
    ((owner,),) = shop.run("SELECT pg_get_userbyid(pubowner) FROM pg_publication", database="shop")
    assert owner == "app"
    assert streamed(shop) == 2
    vitrina("capture", "remove", "--source", "shop", "--yes")
    assert shop.run(LEFT, database="shop") == [(0, 0, 0)]


def test_by_trigger_who_reads_needs_no_more_than_the_owner_grants(
    shop: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VITRINA_CAPTURE_SOURCES__SHOP")
    said = install("--kind", "trigger")
    assert len(said.splitlines()) <= 10, said
    assert "captured as reader" in said
    vitrina("capture", "remove", "--source", "shop", "--yes")
    assert shop.run(LEFT, database="shop") == [(0, 0, 0)]


def test_what_is_missing_is_said_with_the_setting_of_that_source(
    shop: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VITRINA_CAPTURE_OWNERS__SHOP")
    said = install(expect=1)
    assert "public.orders belongs to app, and this is streamer" in said
    assert "let VITRINA_CAPTURE_OWNERS__SHOP sign in as app" in said
    assert 'GRANT CREATE ON DATABASE "shop" TO "streamer"' in said
    monkeypatch.setenv("VITRINA_CAPTURE_OWNERS__SHOP", shop.address("shop", "app"))
    monkeypatch.delenv("VITRINA_CAPTURE_SOURCES__SHOP")
    said = install(expect=1)
    assert "reader, who captures source 'shop', cannot stream its WAL" in said
    assert 'ALTER ROLE "reader" REPLICATION' in said
    assert "let VITRINA_CAPTURE_SOURCES__SHOP sign in as who may" in said
    assert shop.run(LEFT, database="shop") == [(0, 0, 0)]


@pytest.mark.parametrize("scope", ["FOR TABLE orders, lines", "FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
def test_what_a_dba_made_is_used_checked_and_left_as_it_is(
    shop: Managed, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.delenv("VITRINA_CAPTURE_OWNERS__SHOP")
    given = ("--publication", "Marts", "--slot", "marts")
    said = install(*given, expect=1)
    assert 'CREATE PUBLICATION "Marts" FOR TABLE "public"."lines", "public"."orders" WITH (publish' in said
    assert "SELECT pg_create_logical_replication_slot('marts', 'pgoutput')" in said
    shop.run(f"CREATE PUBLICATION \"Marts\" {scope} WITH (publish = 'insert')", database="shop")
    shop.run("SELECT pg_create_logical_replication_slot('marts', 'pgoutput')", database="shop")
    assert 'ALTER PUBLICATION "Marts" SET (publish = ' in install(*given, expect=1)
    shop.run(f'ALTER PUBLICATION "Marts" SET ({WHOLE})', database="shop")
    look = "SELECT p.*, xmin FROM pg_publication p"
    before = shop.run(look, database="shop")
    said = install(*given)
    assert "publication Marts is used as it is; slot marts is used as it is" in said
    assert "captured by publication Marts and slot marts already" in install("--publication", "other", expect=1)
    assert streamed(shop) == 2
    with connect(shop.address("shop", "streamer"), "test") as conn:
        assert uncovered(conn, captured(shop), TABLES.split(",")) == {}
    if scope.startswith("FOR TABLE "):
        shop.run('ALTER PUBLICATION "Marts" DROP TABLE orders', database="shop")
        with pytest.raises(ConfigError, match=r'ALTER PUBLICATION "Marts" ADD TABLE "public"\."orders"'):
            WalTap(shop.address("shop", "streamer")).reset(captured(shop))
        shop.run('ALTER PUBLICATION "Marts" ADD TABLE orders', database="shop")
    else:
        assert shop.run(look, database="shop") == before
    vitrina("capture", "remove", "--source", "shop", "--yes")
    assert shop.run(LEFT, database="shop") == [(1, 1, 0)]


def test_what_a_dba_gave_half_is_named_and_the_statement_mends_it(
    shop: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each remedy is run as it is said."""
    monkeypatch.delenv("VITRINA_CAPTURE_OWNERS__SHOP")
    partly = "orders (id, paid), lines WHERE (id > 5)"
    shop.run(f"CREATE PUBLICATION marts FOR TABLE {partly} WITH (publish = 'insert, update')", database="shop")
    said = install("--publication", "marts", expect=1)
    assert "publication marts does not give delete, truncate; " in said
    assert "gives the rows of partitions as theirs, not as their root's" in said
    assert "gives only some rows or columns of public.lines, public.orders" in said
    remedy = said.partition("remedy: ")[2]
    shop.run(*(part.strip() for part in remedy.replace("its owner does:", "").split(";")), database="shop")
    assert "captured by wal: public.orders, public.lines" in install("--publication", "marts")


@pytest.mark.parametrize(
    ("made", "said", "remedy"),
    [
        ("pg_create_physical_replication_slot('marts')", "is a physical one", "'marts_2', 'pgoutput'"),
        ("pg_create_logical_replication_slot('marts', 'test_decoding')", "is not a lasting one of pgoutput",
         "SELECT pg_drop_replication_slot('marts'); SELECT pg_create_logical_replication_slot('marts', 'pgoutput')"),
    ],
)  # fmt: skip
def test_a_slot_of_no_use_is_not_taken(shop: Managed, made: str, said: str, remedy: str) -> None:
    shop.run(f"SELECT {made}", database="shop")
    told = install("--slot", "marts", expect=1)
    assert f"replication slot marts {said}" in told
    assert remedy in told


def test_a_slot_that_another_program_reads_is_left_to_it(shop: Managed) -> None:
    shop.run("SELECT pg_create_logical_replication_slot('marts', 'pgoutput')", database="shop")
    shop.run(f"CREATE PUBLICATION theirs FOR TABLE lines WITH ({WHOLE})", database="shop")
    with reading(shop, "marts", "theirs") as theirs:
        told = install("--slot", "marts", expect=1)
        assert "replication slot marts is read by session" in told
        assert "of postgres (theirs)" in told
        assert shop.run(LEFT, database="shop") == [(1, 1, 0)]
    install("--slot", "marts")
    with reading(shop, "marts", "theirs") as theirs:
        tap = WalTap(shop.inside("shop", "postgres"))
        with pytest.raises(RetryableError, match=r"slot marts is read by session .* of postgres \(theirs\)"):
            tap.open(captured(shop))
        tap.close()
        theirs.identify_again()
    assert streamed(shop) == 2


@contextmanager
def reading(server: Managed, slot: str, publication: str) -> Iterator["Reading"]:
    """Another program at a slot, which streams."""
    found = Reading(server.inside("shop", "postgres"), slot, publication)
    try:
        yield found
    finally:
        found.close()
        wait_for(lambda: server.run("SELECT active FROM pg_replication_slots") == [(False,)])


class Reading:
    """By the replication protocol; it must still be there when we have tried."""

    def __init__(self, address: str, slot: str, publication: str) -> None:
        self.conn = psycopg.connect(address, replication="database", application_name="theirs", autocommit=True)
        options = f"proto_version '1', publication_names '{publication}'"
        start = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 ({options})"
        self.conn.pgconn.send_query(start.encode())
        result = self.conn.pgconn.get_result()
        assert result
        assert result.status == pq.ExecStatus.COPY_BOTH

    def identify_again(self) -> None:
        """Nobody has ended it."""
        self.conn.pgconn.consume_input()
        assert self.conn.pgconn.status == pq.ConnStatus.OK

    def close(self) -> None:
        self.conn.close()


def test_any_name_is_taken_as_it_is_or_as_sql_quotes_it(shop: Managed) -> None:
    odd = '"public"."Order, ""Lines"""'
    shop.run(
        "SET ROLE app", f"CREATE TABLE {odd} (id int)", 'CREATE TABLE "заказы 2" (id int PRIMARY KEY)', database="shop"
    )
    tables = f"{odd}, public.заказы 2,public.lines,"
    said = install(expect=1, tables=tables)
    statement = said.partition("remedy: ")[2].partition(", or give it")[0]
    shop.run(statement, database="shop")
    install(tables=tables)
    assert captured(shop).tables == ('public.Order, "Lines"', "public.заказы 2", "public.lines")
    assert "orders names no table — write schema.table" in install(expect=2, tables="orders")


def test_letting_go_of_what_is_not_captured_is_a_mistake(shop: Managed) -> None:
    install(tables="public.orders")
    remove = ("capture", "remove", "--source", "shop", "--tables", "public.ordres", "--yes")
    told = vitrina(*remove, expect=1).err
    assert "public.ordres: not captured of source 'shop'" in told
    assert "name some of public.orders" in told
    assert captured(shop).tables == ("public.orders",)


@pytest.mark.parametrize(
    "command", [["capture", "install"], ["capture", "status"], ["capture", "remove"], ["token", "list"], ["roles"]]
)
def test_without_a_meta_store_the_next_step_is_to_make_one(
    empty_db: str, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("VITRINA_DATABASE_URL", empty_db)
    assert "remedy: run: vitrina migrate" in vitrina(*command, expect=1).err


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_is_told_in_its_own_words(plain: Managed, monkeypatch: pytest.MonkeyPatch, service: object) -> None:
    """By the roles that its servers have."""
    known = next(each for each in SERVICES if each == service)
    set_up(plain, monkeypatch)
    try:
        plain.run(f"CREATE ROLE {known.mark}")
        monkeypatch.setenv("VITRINA_CAPTURE_OWNERS__SHOP", plain.address("shop", "app"))
        said = install(expect=1)
        assert f"wal_level is replica at source shop ({known.name})" in said
        assert known.logical in said
    finally:
        plain.clear()


def test_a_plain_server_takes_what_is_said_and_the_forms_of_services_get_numbers(plain: Managed) -> None:
    for statement in (PLAIN.limit_wal, PLAIN.set_at_once("temp_file_limit", "512MB")):
        plain.run(*statement.split("; "))
    wait_for(lambda: plain.run("SHOW max_slot_wal_keep_size") == [("10GB",)])
    assert plain.run("SHOW temp_file_limit") == [("512MB",)]
    plain.run("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")
    by_name = {service.name: service for service in SERVICES}
    assert by_name["Amazon RDS"].limit_wal == "set max_slot_wal_keep_size = 10240 (MB) in the parameter group"
    assert (
        by_name["Cloud SQL"].set("temp_file_limit", "1GB")
        == "set the flag temp_file_limit = 1048576 (kB) of the instance"
    )
    assert by_name["Supabase"].limit_wal.endswith("--config max_slot_wal_keep_size=10GB")
    assert by_name["Azure Database for PostgreSQL"].set("max_wal_senders", "20").endswith("max_wal_senders = 20")
