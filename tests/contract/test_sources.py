"""Sources as things: which there are, whether they answer, what can be kept of them and why not, and what there is."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from tests.contract.server import Api, serve
from tests.contract.test_console import sign_in
from tests.support import Lab
from vitrina.client import Client, ClientError
from vitrina.sources.postgres.kind import POSTGRES
from vitrina.sources.postgres.sight import take_sight
from vitrina.sources.source import hide_secrets

READER = f"shop_reader_{uuid4().hex[:8]}"
SHOP = f"""
    CREATE SCHEMA sales;
    CREATE TABLE sales.orders (id int PRIMARY KEY, total numeric(10,2), note text);
    COMMENT ON TABLE sales.orders IS 'What people bought';
    COMMENT ON COLUMN sales.orders.total IS 'With tax';
    CREATE TABLE sales.secrets (id int);
    CREATE VIEW sales.large AS SELECT id FROM sales.orders WHERE total > 100;
    INSERT INTO sales.orders SELECT n, n FROM generate_series(1, 300) AS n;
    ANALYZE sales.orders;
    CREATE ROLE {READER} LOGIN;
    GRANT USAGE ON SCHEMA sales TO {READER};
    GRANT SELECT ON sales.orders, sales.large TO {READER};
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Lab]:
    """Another database, with a reader who may do little."""
    with Lab.open("vitrina_template") as lab:
        lab.sql(SHOP)
        yield lab
        lab.sql(f"DROP OWNED BY {READER}")
        lab.sql(f"DROP ROLE {READER}")


@pytest.fixture(scope="module")
def shared(shop: Lab) -> Iterator[Api]:
    """An API that knows that database, and one that does not answer."""
    sources = {
        "shop": make_conninfo(shop.conninfo, user=READER, password="planted-secret"),
        "gone": "postgresql://me:planted-secret@127.0.0.1:1/gone?sslmode=disable",
    }
    with Lab.open("vitrina_template") as lab:
        lab.connections = replace(lab.connections, sources=sources)
        lab.configure(allowed_source_schemas=["content", "sales"])
        with serve(lab) as api:
            yield api


def ways(found: dict[str, Any]) -> dict[str, bool]:
    return {way["mode"]: way["can"] for way in found["ways"]}


def why(found: dict[str, Any], mode: str) -> str:
    (way,) = [way for way in found["ways"] if way["mode"] == mode]
    return "; ".join(f"{finding['message']} — {finding['remedy']}" for finding in way["why"])


def test_they_are_listed_without_being_asked_and_without_secrets(api: Api) -> None:
    api.create(source="warehouse")
    found = {row["name"]: row for row in api.get("/sources", role="viewer")}
    assert list(found) == ["warehouse", "shop", "gone"]
    assert (found["warehouse"]["pipelines"], found["shop"]["pipelines"]) == (1, 0)
    assert found["gone"]["address"] == "postgresql://me@127.0.0.1:1/gone?sslmode=disable"
    assert found["gone"]["setting"] == "VITRINA_SOURCES__GONE"
    assert "planted-secret" not in str(found)


def test_one_that_does_not_answer_is_an_answer_with_its_remedy(api: Api) -> None:
    tested = api.post("/sources/gone/test", role="operator")
    found = tested.json()
    assert (tested.status_code, found["answers"]) == (200, False)
    assert "cannot connect to Postgres" in found["error"]
    assert found["remedy"].startswith("correct VITRINA_SOURCES__GONE")
    assert "planted-secret" not in tested.text


def test_what_a_reader_lacks_is_named_for_each_mode(api: Api) -> None:
    found = api.post("/sources/shop/test", role="operator").json()
    assert (found["answers"], found["role"]) == (True, READER)
    assert ways(found)["full"] is True
    assert f'GRANT pg_read_all_stats TO "{READER}"' in why(found, "incremental")
    assert f"{READER} may not stream the WAL" in why(found, "live by wal")
    assert f'ALTER ROLE "{READER}" REPLICATION, as a superuser' in why(found, "live by wal")
    assert "VITRINA_CAPTURE_SOURCES__SHOP" in why(found, "live by wal")
    assert ways(found)["live by trigger"] is True
    schemas = {schema["name"]: schema for schema in found["schemas"]}
    assert (schemas["sales"]["tables"], schemas["sales"]["closed"]) == (3, 1)
    assert schemas["content"]["usable"] is False


def test_a_managed_service_is_told_of_in_its_own_words(shop: Lab) -> None:
    with shop.db.transaction(force_rollback=True):  # roles are everybody's: nobody else sees these
        shop.db.execute("CREATE ROLE rds_superuser; CREATE ROLE rds_replication")
        before = take_sight(shop.db, ["sales"], READER, "VITRINA_CAPTURE_SOURCES__SHOP").obstacles["live by wal"]
        shop.sql(f"GRANT rds_replication TO {READER}")
        after = take_sight(shop.db, ["sales"], READER, "VITRINA_CAPTURE_SOURCES__SHOP")
    (found,) = before
    assert found.remedy.startswith(f'GRANT rds_replication TO "{READER}", as the master user; or')
    assert after.may("live by wal")


def test_the_warehouse_can_do_all_that_its_roles_are_for(api: Api) -> None:
    found = api.post("/sources/warehouse/test", role="operator").json()
    assert ways(found) == dict.fromkeys(["full", "incremental", "live by wal", "live by trigger"], True)


def test_a_reader_who_may_read_nothing_is_told_so_before_anything_else(api: Api, shop: Lab) -> None:
    shop.sql(f"REVOKE SELECT ON ALL TABLES IN SCHEMA sales FROM {READER}")
    found = api.post("/sources/shop/test", role="operator").json()
    shop.sql(f"GRANT SELECT ON sales.orders, sales.large TO {READER}")
    assert set(ways(found).values()) == {False}
    assert f"{READER} may read no table of content, sales" in why(found, "full")


@pytest.mark.parametrize(
    ("query", "grant"),
    [
        ("SELECT s.id FROM sales.secrets s", 'GRANT SELECT ON "sales"."secrets" TO'),
        ("SELECT f.id FROM content.film_work f", 'GRANT USAGE ON SCHEMA "content" TO'),
    ],
)
def test_who_validates_what_is_closed_to_the_reader_is_told_what_to_grant(api: Api, query: str, grant: str) -> None:
    config = {"name": "closed", "source": "shop", "source_query": query, "target_table": "analytics.c", "key": ["id"]}
    found = api.post("/validate", config, role="admin").json()["findings"]
    (wrong,) = [finding for finding in found if finding["level"] == "error"]
    assert "permission denied for" in wrong["message"]
    assert wrong["remedy"] == f'its owner at source shop has to run: {grant} "{READER}"'


def test_its_tables_are_shown_with_keys_types_and_comments(api: Api) -> None:
    found = api.get("/sources/shop", role="operator")
    tables = {f"{table['schema']}.{table['name']}": table for table in found["tables"] if table["schema"] == "sales"}
    orders = tables["sales.orders"]
    assert (orders["comment"], orders["key"], orders["rows"]) == ("What people bought", ["id"], 300)
    assert orders["columns"][1] == {"name": "total", "type": "numeric(10,2)", "comment": "With tax"}
    assert (tables["sales.large"]["kind"], tables["sales.secrets"]["readable"]) == ("view", False)
    assert found["more_tables"] is False


def test_a_source_that_is_none_names_those_that_are(api: Api) -> None:
    answer = api.ask("GET", "/sources/nowhere")
    assert answer.status_code == 404
    assert "known: warehouse, shop, gone" in answer.text
    assert "VITRINA_SOURCES__NOWHERE" in answer.text


def test_the_client_knows_them(api: Api) -> None:
    with Client(api.url, api.tokens["operator"]) as client:
        assert [source.name for source in client.sources()] == ["warehouse", "shop", "gone"]
        assert client.test_source("gone").answers is False
        assert client.source("shop").role == READER
        with pytest.raises(ClientError) as caught:
            client.test_source("nowhere")
    assert caught.value.remedy.startswith("set VITRINA_SOURCES__NOWHERE=")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ["What can be kept of it", "may not stream the WAL", "live by trigger"]),
        ("ru", ["Какие витрины из него возможны", "не вправе читать поток WAL", "живой, через триггеры"]),
    ],
)
def test_the_console_shows_them_in_both_languages(api: Api, language: str, words: list[str]) -> None:
    with sign_in(api, "operator") as browser:
        browser.headers["Accept-Language"] = language
        assert "postgresql://me@127.0.0.1:1/gone" in browser.get("/sources").text
        assert "VITRINA_SOURCES__SHOP" in browser.get("/sources/shop").text
        shown = browser.get("/sources/shop/look").text
        assert [word for word in words if word not in shown] == []
        assert "numeric(10,2)" in shown
        assert "cannot connect to Postgres" in browser.get("/sources/gone/look").text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:5433/d?password=x&sslmode=require", "postgresql://u@h:5433/d?sslmode=require"),
        ("host=/run/pg dbname=d user=u password=p", "postgresql://u@/run/pg/d"),
        ("dbname=d", "postgresql:///d"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert POSTGRES.shown(url) == shown


def test_so_is_that_of_another_kind() -> None:
    assert hide_secrets("spark://me:secret@lake:7077/db?token=secret") == "spark://me@lake:7077/db"
