"""S3 for tests: moto's server in a process of its own, a front that can be in trouble, and a lake in a bucket of it."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import pyarrow.dataset
import pytest
from pyarrow import fs
from pydantic import SecretStr

from tests.files import FilesSink
from tests.lake import LakeSink
from tests.support import Lab, wait_for

PYTHON = Path(__file__).parents[1] / "integrations" / "s3" / ".venv" / "bin" / "python"
REGION, KEY, SECRET = "us-east-1", "a-key", "a-secret-that-nobody-sees"
LISTENS = re.compile(r"http://127\.0\.0\.1:(\d+)")
OF_THE_WAY = ("connection", "expect", "transfer-encoding")  # of a message, and not of what it says
WRITES = ("PUT", "POST", "DELETE")


@contextmanager
def running() -> Iterator[str]:
    """The URL of a server of its own, once it says where it listens."""
    require()
    command = [str(PYTHON), "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    try:
        url = next(found[0] for line in process.stderr if (found := LISTENS.search(line)))
        Thread(target=process.stderr.read, daemon=True).start()
        yield url
    finally:
        process.kill()
        process.wait()


def require() -> None:
    """Skip, and say so, unless VITRINA_REQUIRE forbids that."""
    if not PYTHON.exists():
        missing("s3", "no server of S3 is set up: make test-s3")


def missing(what: str, said: str) -> None:
    """One of them."""
    if what in os.environ.get("VITRINA_REQUIRE", "").split(","):
        pytest.fail(f"VITRINA_REQUIRE has {what}: {said}")
    pytest.skip(said)


class Request(NamedTuple):
    """What came."""

    method: str
    path: str
    key: str  # whose it is


class Lost(Exception):
    """The connection ends without an answer."""


Refusal: TypeAlias = tuple[int, str]  # status and S3's code
Rule: TypeAlias = Callable[[Request], Refusal | None]


@dataclass
class Front:
    """Before the server, on a port of its own: passes everything on, unless `rule` has an answer."""

    upstream: str
    rule: Rule = lambda request: None
    swallow: Callable[[Request], bool] = lambda request: False  # passed on, and the answer is lost
    ignores: tuple[str, ...] = ()  # headers, which the server does not get to see
    seen: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def writes(self) -> list[Request]:
        """That would change something."""
        return [request for request in self.seen if request.method in WRITES]

    def start(self) -> None:
        """Let it answer; where it did before, if it did."""
        handler = type("Handler", (Face,), {"front": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Nobody listens any more."""
        self.server.shutdown()
        self.server.server_close()


class Face(BaseHTTPRequestHandler):
    """One request a connection: whoever is away is away for everybody at once."""

    protocol_version = "HTTP/1.1"  # or nobody is told that a body may come
    front: Front

    def answer(self) -> None:
        """By the rule, or as the server does."""
        self.close_connection, body = True, self.body()
        found = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization") or "")
        request = Request(self.command, self.path, found[1] if found else "")
        self.front.seen.append(request)
        try:
            refusal = self.front.rule(request)
        except Lost:
            return
        if refusal:
            self.refuse(*refusal)
        else:
            self.forward(body)

    def body(self) -> bytes:
        """In one piece, however it came."""
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def refuse(self, status: int, code: str) -> None:
        """As S3 does."""
        said = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>scripted</Message></Error>'
        self.reply(status, {"Content-Type": "application/xml", "Content-Length": str(len(said))}, said.encode())

    def forward(self, body: bytes) -> None:
        """All of it, and all of the answer."""
        ignored = (*OF_THE_WAY, *self.front.ignores)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ignored}
        with closing(HTTPConnection(self.front.upstream.removeprefix("http://"), timeout=60)) as server:
            server.request(self.command, self.path, body, headers)
            answer = server.getresponse()
            told = answer.read()
        if not self.front.swallow(self.front.seen[-1]):
            self.reply(answer.status, dict(answer.getheaders()), told)

    def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """And no more on this connection."""
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in OF_THE_WAY:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def fronting(upstream: str) -> Iterator[Front]:
    """A front for the time being."""
    front = Front(upstream)
    front.start()
    try:
        yield front
    finally:
        front.stop()


@dataclass
class BucketLake(LakeSink):
    """A table of Iceberg in a bucket; `endpoint` is how others get there, which no trouble befalls."""

    endpoint: str = ""
    bucket: str = field(default_factory=lambda: f"t-{uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        signing = {"access_key": KEY, "secret_key": SECRET, "region": REGION}
        self.system = fs.S3FileSystem(endpoint_override=self.endpoint, allow_bucket_creation=True, **signing)
        self.system.create_dir(self.bucket)
        names = {"s3.endpoint": self.endpoint, "s3.region": REGION}
        self.properties = names | {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
        self.lab.configure(
            lake_url=f"s3://{self.bucket}/marts",
            lake_endpoint=self.endpoint,
            lake_region=REGION,
            lake_access_key=SecretStr(KEY),
            lake_secret_key=SecretStr(SECRET),
            allowed_lake_tables=["cinema.*"],
            lake_unused_seconds=0,
        )

    def files(self, url: str) -> set[str]:
        """All that are below it."""
        selector = fs.FileSelector(url.removeprefix("s3://"), recursive=True, allow_not_found=True)
        found = self.system.get_file_info(selector)
        return {f"s3://{info.path}" for info in found if info.type == fs.FileType.File}

    @property
    def by_duckdb(self) -> list[tuple[Any, ...]]:
        """The rows of the files that count, by an engine that nobody here wrote."""
        import duckdb  # for those who use it

        files = [task.file.file_path.removeprefix("s3://") for task in self.table.scan().plan_files()]
        held = pyarrow.dataset.dataset(files, filesystem=self.system, format="parquet")
        found = duckdb.connect().from_arrow(held).order("1").to_arrow_table().to_pylist()
        return [tuple(row.values()) for row in found]


@dataclass
class BucketFiles(FilesSink):
    """Files of Parquet in a bucket; `endpoint` is how others get there, which no trouble befalls."""

    endpoint: str = ""
    bucket: str = field(default_factory=lambda: f"t-{uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        signing = {"access_key": KEY, "secret_key": SECRET, "region": REGION}
        self.system = fs.S3FileSystem(endpoint_override=self.endpoint, allow_bucket_creation=True, **signing)
        self.system.create_dir(self.bucket)
        self.root = f"{self.bucket}/marts/film_dim"
        self.target = f"s3://{self.root}/"
        self.lab.configure(
            lake_endpoint=self.endpoint,
            lake_region=REGION,
            lake_access_key=SecretStr(KEY),
            lake_secret_key=SecretStr(SECRET),
            allowed_files=[f"s3://{self.bucket}/*"],
            lake_unused_seconds=0,
            es_grace_seconds=0,
        )

    def get(self, path: str) -> bytes | None:
        """A file of the mart."""
        try:
            with self.system.open_input_stream(f"{self.root}/{path}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            return None

    def put(self, path: str, data: bytes) -> None:
        """A file of somebody's."""
        with self.system.open_output_stream(f"{self.root}/{path}") as file:
            file.write(data)

    def paths(self) -> Iterator[str]:
        """All that are there."""
        selector = fs.FileSelector(self.root, recursive=True, allow_not_found=True)
        found = self.system.get_file_info(selector)
        return (info.path.removeprefix(f"{self.root}/") for info in found if info.type == fs.FileType.File)

    @property
    def table(self) -> Any:
        """By pyarrow, the way of docs/files.md."""
        manifest = self.manifest
        assert manifest
        files = [f"{self.root}/{path}" for path in manifest["files"]]
        return pyarrow.dataset.dataset(files, filesystem=self.system, format="parquet").to_table()


GATEWAY = Path.home() / ".cache" / "vitrina" / "tools" / "versitygw"


@contextmanager
def versity() -> Iterator[str]:
    """The URL of versitygw, over a folder: another server of S3."""
    if not GATEWAY.exists():
        missing("versitygw", "another server of S3 (versitygw) is not set up: make versitygw")
    with TemporaryDirectory() as folder, TemporaryDirectory() as beside, closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        options = ["--access", KEY, "--secret", SECRET, "--region", REGION, "--port", f"127.0.0.1:{port}", "--quiet"]
        with subprocess.Popen(
            [str(GATEWAY), *options, "posix", "--sidecar", beside, folder], stdout=subprocess.DEVNULL
        ) as process:
            try:
                wait_for(lambda: not socket().connect_ex(("127.0.0.1", port)))
                yield f"http://127.0.0.1:{port}"
            finally:
                process.kill()


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of a server, of one for each worker."""
    with running() as url:
        yield url


@pytest.fixture
def lake(lab: Lab, s3: str) -> BucketLake:
    """In a bucket of its own, reached straight."""
    return BucketLake(lab, Path(), endpoint=s3)


@pytest.fixture
def front(lake: BucketLake) -> Iterator[Front]:
    """Between the lab and the server; a test sees the bucket past it."""
    with fronting(lake.endpoint) as front:
        lake.lab.configure(lake_endpoint=front.url)
        yield front
