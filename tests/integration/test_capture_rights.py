"""Capture with the rights that a team has: an owner and who streams, what a DBA has made, what a service calls it."""

from collections.abc import Iterator

import pytest

from tests.acceptance.client import vitrina
from tests.managed import VERSIONS, Managed, managed
from vitrina.capture.installation import uncovered
from vitrina.capture.wal import WalTap
from vitrina.domain.errors import ConfigError
from vitrina.meta.db import connect
from vitrina.meta.repos.captures import Capture, CaptureRepo
from vitrina.meta.services import SERVICES

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
