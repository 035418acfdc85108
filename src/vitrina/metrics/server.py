"""The runner's `/metrics`: a small server on a thread of its own, off unless a port is set."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from vitrina.addresses import is_loopback
from vitrina.domain.errors import ConfigError
from vitrina.metrics import shows
from vitrina.metrics.events import REGISTRY
from vitrina.settings import Settings

PATH = "/metrics"


class Server(ThreadingHTTPServer):
    """With the token that opens it; without one, whoever can connect may look."""

    daemon_threads = True

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self.token = token
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)


class Handler(BaseHTTPRequestHandler):
    """GET /metrics, and nothing else."""

    timeout = 10  # of a client that says nothing
    server_version, sys_version = "vitrina", ""

    def do_GET(self) -> None:
        """The exposition, to whoever may see it."""
        if self.path.partition("?")[0] != PATH:
            return self._answer(404, b"only /metrics is here\n")
        assert isinstance(self.server, Server)
        if self.server.token and not shows(self.headers.get("Authorization"), self.server.token):
            return self._answer(401, b"this needs VITRINA_METRICS_TOKEN, as: Authorization: Bearer ...\n")
        return self._answer(200, generate_latest(REGISTRY), CONTENT_TYPE_LATEST)

    def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A scrape every few seconds is no news."""


@contextmanager
def serving(settings: Settings) -> Iterator[int | None]:
    """While a runner works: the port that is listened on, or None."""
    if settings.runner_metrics_port is None:
        yield None
        return
    server = _open(settings, settings.runner_metrics_port)
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _open(settings: Settings, port: int) -> Server:
    host = settings.runner_metrics_host
    token = settings.metrics_token.get_secret_value() if settings.metrics_token else None
    if not token and not is_loopback(host):
        raise ConfigError(
            f"the runner's metrics have no token, and {host} can be reached from other machines",
            "set VITRINA_METRICS_TOKEN, or VITRINA_RUNNER_METRICS_HOST=127.0.0.1",
        )
    try:
        return Server(host, port, token)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            "give each runner of a machine a VITRINA_RUNNER_METRICS_PORT of its own",
        ) from error
