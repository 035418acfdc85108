"""The compose file, run as processes: each service's own command and environment, to filled marts."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from signal import SIGTERM
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from tests.acceptance.processes import free_port
from tests.infra.composing import FILE, ROOT, Composed, path_with, read, read_env
from tests.support import differences, wait_for
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.files import demo_pipelines
from vitrina.meta.roles import ALL

SMALL = {"DEMO_FILMS": "60", "DEMO_RATINGS": "400", "RUNNERS": "2"}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "32MB"}
SESSIONS = """
    SELECT usename, array_agg(DISTINCT application_name ORDER BY application_name) FROM pg_stat_activity
    WHERE datname = 'cinema' AND application_name LIKE 'vitrina %%' GROUP BY 1
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the server's user can reach."""
    found = Path(tempfile.mkdtemp(prefix="vitrina-compose-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture
def variables(folder: Path) -> dict[str, str]:
    """Those of a new .env, as `make up STACK=compose` writes it."""
    for name in ("env", ".env.sample"):
        shutil.copy(ROOT / "infra" / name, folder / name)
    subprocess.run([folder / "env"], check=True)
    return read_env(folder / ".env") | SMALL


@pytest.fixture
def composed(folder: Path, variables: dict[str, str], demo_indexes: str) -> Iterator[Composed]:
    """The file's services, not yet started."""
    yield from compose(folder, variables, demo_indexes.removeprefix("http://"))


@pytest.fixture
def without_search(folder: Path, variables: dict[str, str]) -> Iterator[Composed]:
    """Those that need no Elasticsearch, in a folder whose settings.env is our own."""
    shutil.copy(ROOT / "infra" / "demo.env", folder)
    for made in compose(folder, variables, "127.0.0.1:1"):
        made.files = folder
        made.services = {name: made.services[name] for name in ("etl_db", "migrate", "etl_api", "etl_runner")}
        yield made


def compose(folder: Path, variables: dict[str, str], search: str) -> Iterator[Composed]:
    """Where everything is here, and its end."""
    bin_dir = os.environ.get("VITRINA_TEST_PG_BIN")
    port = free_port()
    database = EmbeddedPostgres(
        folder / "postgres", port=int(port), settings=FAST, bin_dir=Path(bin_dir) if bin_dir else None
    )
    programs = Path(database.program("pg_isready")).parent
    made = Composed(
        read(FILE, variables)["services"],
        places={"etl_db:5432": f"127.0.0.1:{port}", "elasticsearch:9200": search, "127.0.0.1:9200": search},
        environment={
            "VITRINA_PORT": free_port(),
            "VITRINA_HOME": str(folder / "home"),
            "VITRINA_POLL_SECONDS": "0.25",
            "PGPORT": port,
            "PATH": path_with(Path(sys.executable).parent, programs),
        },
        folder=folder,
        database=database,
    )
    yield made
    made.kill()


@pytest.mark.long
def test_the_services_run_as_processes_to_filled_marts(
    composed: Composed, variables: dict[str, str], demo_indexes: str
) -> None:
    composed.up()
    assert composed.order.index("etl_db") < composed.order.index("migrate") < composed.order.index("etl_runner")
    composed.await_health("etl_api")
    composed.await_health("etl_runner")
    wait_for(lambda: ended(composed, variables) == {"SUCCESS"}, 120)
    assert_filled(composed, demo_indexes)
    assert {"vitrina_api", "vitrina_runner", "vitrina_capture"} <= who_works(composed).keys() <= set(ALL)
    ends = composed.down()
    assert ends.pop("etl_api") in ([0], [-SIGTERM])  # its server ends by the signal, once it has let go of everything
    assert ends == {"migrate": [0], "demo": [0], "etl_runner": [0, 0]}


SHOP = """
    CREATE SCHEMA sales;
    CREATE TABLE sales.orders (id int PRIMARY KEY, total numeric);
    INSERT INTO sales.orders SELECT n, n * 1.50 FROM generate_series(1, 500) AS n;
    CREATE ROLE shop_reader LOGIN PASSWORD 'of-the-shop';
    GRANT USAGE ON SCHEMA sales TO shop_reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA sales TO shop_reader;
"""
ORDERS = {
    "name": "orders", "source": "shop", "source_query": "SELECT o.id, o.total FROM sales.orders o",
    "target_table": "analytics.orders", "key": ["id"],
}  # fmt: skip


@pytest.mark.long
def test_a_source_and_a_schema_are_added_by_the_env_file_alone(
    without_search: Composed, variables: dict[str, str]
) -> None:
    there = without_search.environment["PGPORT"]
    (without_search.folder / "settings.env").write_text(
        f"VITRINA_SOURCES__SHOP=postgresql://shop_reader:of-the-shop@127.0.0.1:{there}/shop\n"
        "VITRINA_ALLOWED_SOURCE_SCHEMAS=content,ugc,sales\n"
    )
    without_search.up()
    with psycopg.connect(without_search.database.conninfo(), autocommit=True) as conn:
        conn.execute("CREATE DATABASE shop")
    with psycopg.connect(without_search.database.conninfo("shop"), autocommit=True) as conn:
        conn.execute(SHOP.encode())
    without_search.await_health("etl_api")
    with api_of(without_search, variables) as api:
        assert api.get("/").headers["location"] == "/console/"
        api.post("/api/v1/pipelines", json=ORDERS).raise_for_status()
        api.post("/api/v1/pipelines/orders/run").raise_for_status()
        runs = "/api/v1/pipelines/orders/runs"
        wait_for(lambda: [run["status"] for run in api.get(runs).json()["items"]] == ["SUCCESS"], 60)
    with psycopg.connect(without_search.database.conninfo("cinema")) as conn:
        found = conn.execute("SELECT count(*), sum(total) FROM analytics.orders").fetchone()
    assert found == (500, Decimal("187875.00"))


def api_of(composed: Composed, variables: dict[str, str]) -> httpx.Client:
    """With its provisioned token."""
    return httpx.Client(
        base_url=f"http://127.0.0.1:{composed.environment['VITRINA_PORT']}",
        headers={"Authorization": f"Bearer {variables['VITRINA_TOKEN']}"},
        trust_env=False,
        timeout=60,
    )


def ended(composed: Composed, variables: dict[str, str]) -> set[Any]:
    """How the last runs of all pipelines ended, by the API and its provisioned token."""
    with api_of(composed, variables) as api:
        names = [p["name"] for p in api.get("/api/v1/pipelines").raise_for_status().json()["items"]]
        runs = [api.get(f"/api/v1/pipelines/{name}/runs").raise_for_status().json()["items"] for name in names]
    assert len(names) in (0, 10)
    found = {run[0]["status"] if run else None for run in runs} or {None}
    assert "FAILED" not in found, composed.said("etl_runner")
    return found


def assert_filled(composed: Composed, elastic: str) -> None:
    with psycopg.connect(composed.database.conninfo("cinema"), row_factory=dict_row) as conn:
        for pipeline in demo_pipelines() + demo_pipelines("live") + demo_pipelines("chain"):
            if pipeline.source_query:
                assert differences(conn, pipeline.source_query, str(pipeline.target_table)) == 0, pipeline.name
    for index in ("film_dim", "film_rating_agg"):
        httpx.post(f"{elastic}/{index}/_refresh", trust_env=False, timeout=60).raise_for_status()
        assert httpx.get(f"{elastic}/{index}/_count", trust_env=False, timeout=60).json()["count"] >= 50


def who_works(composed: Composed) -> dict[str, list[str]]:
    """The users of Vitrina's sessions: never the database's owner, once the one-offs are done."""
    with psycopg.connect(composed.database.conninfo("cinema")) as conn:
        return dict(conn.execute(SESSIONS.encode()).fetchall())
