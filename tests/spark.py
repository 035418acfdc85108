"""A Spark for tests: the real one, as processes of this machine that can be killed one by one.

A server of Spark Connect (the driver), and where `workers` are asked for, a master and so many workers besides, each of
which has an executor in a process of its own. Everything listens on 127.0.0.1.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from tests.asking import Asker, asking
from tests.lake import LakeSink
from tests.support import Lab, wait_for
from tests.wire import Wire, through, to_postgres, wired
from vitrina.domain.pipeline import Pipeline

PLACE = Path(__file__).parents[1] / "integrations" / "spark"
JARS = PLACE / ".jars"
HERE = "127.0.0.1"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
EXECUTOR = "CoarseGrainedExecutorBackend"
ERROR = re.compile("ERROR|Exception|Caused")
START_SECONDS = 120
MEMORY = "1g"  # of the driver, and of each executor
SETTINGS = {
    "spark.driver.host": HERE,
    "spark.driver.bindAddress": HERE,
    "spark.connect.grpc.binding.address": HERE,
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


def missing() -> str:
    """Why there is none; empty if there is."""
    if not (PLACE / ".venv" / ".ready").exists() or not [*JARS.glob("*.jar")]:
        return "no Spark is set up: make test-spark"
    return "" if shutil.which("java") else "Spark needs Java 17: apt install default-jre-headless"


def require() -> None:
    """Skip, and say so, unless VITRINA_REQUIRE forbids that."""
    if not (why := missing()):
        return
    if "spark" in os.environ.get("VITRINA_REQUIRE", "").split(","):
        pytest.fail(f"VITRINA_REQUIRE has spark: {why}")
    pytest.skip(why)


def catalogue(name: str, schema: str, conninfo: Mapping[str, Any], lake: str) -> dict[str, str]:
    """Settings of a catalogue of Iceberg in the warehouse, as whoever runs a cluster writes them."""
    where = "jdbc:postgresql://{host}:{port}/{dbname}".format(**conninfo) + f"?currentSchema={schema}"
    values = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".uri": where,
        ".jdbc.user": str(conninfo["user"]),
        ".jdbc.schema-version": "V1",
        ".jdbc.init-catalog-tables": "false",
        ".warehouse": lake,
        ".cache-enabled": "false",
    } | ({".jdbc.password": str(conninfo["password"])} if conninfo.get("password") else {})
    return {f"spark.sql.catalog.{name}{key}": value for key, value in values.items()}


@dataclass
class Spark:
    """One cluster, in a folder; after the driver was killed it may be started again, at the same port."""

    folder: Path
    workers: int = 0  # 0: the driver computes by itself
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    web_port: int = 0
    driver: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)
    master: str = "local[2]"

    @property
    def url(self) -> str:
        """As a source has it."""
        return f"sc://{HERE}:{self.port}"

    @property
    def log(self) -> str:
        """What the driver has said."""
        return (self.folder / "driver.log").read_text(errors="replace")

    def start(self) -> None:
        """Until the driver answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.workers and not self.others:
            self._start_workers()
        if not self.port:
            self.port, self.web_port = _free_port(), _free_port()
        own = {
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.ui.port": str(self.web_port),
            "spark.local.dir": str(self.folder / "tmp"),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.executor.memory": MEMORY,
            "spark.jars": ",".join(map(str, sorted(JARS.glob("*.jar")))),
        }
        options = [
            part
            for name, value in {**SETTINGS, **own, **self.settings}.items()
            for part in ("--conf", f"{name}={value}")
        ]
        command = ["org.apache.spark.deploy.SparkSubmit", "--master", self.master, "--driver-memory", MEMORY]
        self.driver = self._run("driver", [*command, "--class", CONNECT, *options, "spark-internal"])
        self._await(self.driver, self.port)

    def kill(self) -> None:
        """The driver, as it is: with it go its executors."""
        if self.driver is not None:
            _kill(self.driver)
            self.driver = None

    def stop(self) -> None:
        """All of it."""
        self.kill()
        for process in self.others:
            _kill(process)
        self.others.clear()
        for pid in self.executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def executors(self) -> list[int]:
        """The processes of this cluster's executors."""
        return [pid for pid, said in _processes() if EXECUTOR in said and str(self.folder) in said]

    def kill_executor(self) -> int:
        """Any; which."""
        [pid, *_] = self.executors()
        os.kill(pid, signal.SIGKILL)
        return pid

    def jobs(self) -> list[dict[str, Any]]:
        """As Spark's own pages show them."""
        api = f"http://{HERE}:{self.web_port}/api/v1/applications"
        with httpx.Client(trust_env=False, timeout=30) as client:
            [application] = client.get(api).raise_for_status().json()
            return list(client.get(f"{api}/{application['id']}/jobs").raise_for_status().json())

    def _start_workers(self) -> None:
        port, web = _free_port(), _free_port()
        deploy, at = "org.apache.spark.deploy", ["--host", HERE]
        ports = ["--port", str(port), "--webui-port", str(web)]
        self.others.append(self._run("master", [f"{deploy}.master.Master", *at, *ports]))
        self._await(self.others[-1], port)
        self.master = f"spark://{HERE}:{port}"
        for number in range(self.workers):
            room = ["--cores", "1", "--memory", "2g", "--work-dir", str(self.folder / f"work-{number}")]
            place = ["--port", str(_free_port()), "--webui-port", str(_free_port())]
            self.others.append(
                self._run(f"worker-{number}", [f"{deploy}.worker.Worker", *at, *place, *room, self.master])
            )

    def _run(self, name: str, command: list[str]) -> "subprocess.Popen[bytes]":
        [home] = (PLACE / ".venv" / "lib").glob("python*/site-packages/pyspark")
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))},
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HERE,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "PYSPARK_PYTHON": str(PLACE / ".venv" / "bin" / "python"),
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [home / "bin" / "spark-class", *command], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _await(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        def is_up() -> bool:
            assert process.poll() is None, f"it ended: {self._last_words()}"
            with socket.socket() as probe:
                return probe.connect_ex((HERE, port)) == 0

        wait_for(is_up, START_SECONDS)

    def _last_words(self) -> str:
        logs = [log.read_text(errors="replace")[-2000:] for log in self.folder.glob("*.log")]
        return "\n".join(line for text in logs for line in text.splitlines() if ERROR.search(line))


def client(url: str, settings: Mapping[str, str]) -> list[str | Path]:
    """Spark's own, as a command for `asking`."""
    return [PLACE / ".venv" / "bin" / "python", PLACE / "ask.py", url, json.dumps(settings)]


@dataclass
class SparkLake(LakeSink):
    """A lake that Spark sees too, by the catalogue in the warehouse, which it reaches by TCP."""

    postgres: str = ""

    @property
    def catalogues(self) -> dict[str, str]:
        """As whoever runs the cluster has them in its settings."""
        where = conninfo_to_dict(self.postgres)
        names = {"vitrina": "etl_lake", "vitrina_work": "etl_lake_work"}
        found = [catalogue(name, schema, where, f"file://{self.folder}") for name, schema in names.items()]
        return {name: value for settings in found for name, value in settings.items()}


QUERY = """
SELECT film_id, CAST(sum(rating) AS BIGINT) AS total, count(*) AS votes, max(title) AS title,
       avg(CAST(rating AS DOUBLE)) AS mean
FROM vitrina.raw.ratings GROUP BY film_id"""


@dataclass
class Cluster:
    """A Spark whose lake has a table of ratings, and a lab that knows it as a source and an engine."""

    lab: Lab
    lake: SparkLake
    spark: Spark
    ask: Asker
    wire: Wire  # between the runner and Spark

    def add(self, films: int = 100, **config: Any) -> Pipeline:
        """A pipeline over so many films, with a rating each."""
        self.ask("CREATE NAMESPACE IF NOT EXISTS vitrina.raw")
        values = "id AS film_id, CAST(id % 10 AS INT) AS rating, concat('the title of film number ', id) AS title"
        self.ask(f"CREATE TABLE vitrina.raw.ratings USING iceberg AS SELECT {values} FROM range({films})")
        own = {"name": "totals", "source": "cluster", "source_query": QUERY, "key": ["film_id"]}
        return self.lab.add(**(own | {"target_table": self.lake.target} | config))

    def jobs_of_run(self) -> list[dict[str, Any]]:
        """Of runs of this lab's pipelines, by the tag that they have."""
        return [job for job in self.spark.jobs() if any("vitrina-totals-run-" in tag for tag in job["jobTags"])]

    def know(self, source: str, url: str) -> None:
        """As a source of this name."""
        known = {**self.lab.connections.sources, source: url}
        self.lab.configure(sources={name: SecretStr(each) for name, each in known.items()})
        self.lab.connections = replace(self.lab.connections, sources=known)

    def differ(self, pipeline: Pipeline) -> list[dict[str, Any]]:
        """Rows that either side has and the other has not, as Spark sees them."""
        query, mart = f"SELECT * FROM ({pipeline.source_query})", "SELECT * FROM vitrina.cinema.mart"
        return self.ask(f"(({query}) EXCEPT ALL ({mart})) UNION ALL (({mart}) EXCEPT ALL ({query}))")

    def assert_equal(self, pipeline: Pipeline) -> None:
        """And nothing of a run is left behind."""
        assert self.differ(pipeline) == []
        assert self.lab.sql("SELECT * FROM etl_lake_work.iceberg_tables") == []


@contextmanager
def clustered(lab: Lab, lake: SparkLake, spark: Spark) -> Iterator[Cluster]:
    """For the time being."""
    with asking(client(spark.url, lake.catalogues)) as ask, wired(Wire((HERE, spark.port))) as wire:
        settings = {name: SecretStr(value) for name, value in lake.catalogues.items()}
        lab.configure(lake_engine="cluster", spark_settings=settings)
        cluster = Cluster(lab, lake, spark, ask, wire)
        cluster.know("cluster", f"sc://{HERE}:{wire.port}")
        yield cluster


@contextmanager
def running(folder: Path, workers: int = 0, **settings: str) -> Iterator[Spark]:
    """For the time being."""
    require()
    spark = Spark(folder, workers, settings)
    try:
        spark.start()
        yield spark
    finally:
        spark.stop()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HERE, 0))
        return int(probe.getsockname()[1])


def _processes() -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                yield int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """One for all: the driver computes by itself. Or one of yours on this
    machine: VITRINA_TEST_SPARK_PORT=port:port of its pages."""
    if given := os.environ.get("VITRINA_TEST_SPARK_PORT"):
        port, _, web = given.partition(":")
        yield Spark(tmp_path_factory.mktemp("spark"), port=int(port), web_port=int(web or 4040))
        return
    with running(tmp_path_factory.mktemp("spark")) as spark:
        yield spark


@pytest.fixture
def lake(lab: Lab, tmp_path: Path) -> Iterator[SparkLake]:
    """In a folder of its own."""
    with wired(to_postgres(lab.conninfo)) as wire:
        yield SparkLake(lab, tmp_path / "lake", postgres=through(wire, lab.conninfo))


@pytest.fixture
def ask(spark: Spark, lake: SparkLake) -> Iterator[Asker]:
    """A session of somebody else's, over this lake."""
    with asking(client(spark.url, lake.catalogues)) as ask:
        yield ask


@pytest.fixture
def cluster(lab: Lab, lake: SparkLake, spark: Spark) -> Iterator[Cluster]:
    """Over this lake."""
    with clustered(lab, lake, spark) as cluster:
        yield cluster
