"""A small HTTP face over chDB, ClickHouse's own engine in a process: `python server.py FOLDER`, which prints its port.

It passes statements on as they come, and gives answers and errors as ClickHouse's HTTP interface does, as far as
clickhouse-connect and Vitrina ask. Nothing is made up: what the engine does not do, it does not do here. One statement
runs at a time. What is stored stays in the folder, however the process ends.
"""

import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from chdb._exceptions import ChdbError
from chdb.state import connect

CODE = re.compile(r"Code: (\d+)\.")
STATUS = {60: 404, 81: 404, 516: 403, 497: 403}


class Face(BaseHTTPRequestHandler):
    """`POST /?query=…`: the statement is there, in the body, or begins there and goes on in the body."""

    protocol_version = "HTTP/1.1"
    engine: Any
    lock = Lock()

    def do_GET(self) -> None:
        """`/ping`, or a statement."""
        if urlsplit(self.path).path == "/ping":
            self.answer(b"Ok.\n")
        else:
            self.do_POST()

    def do_POST(self) -> None:
        """One statement."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = parse_qs(urlsplit(self.path).query)
        statement = "\n".join(part for part in (told.get("query", [""])[0], body.decode()) if part)
        try:
            with self.lock:
                result = self.engine.query(statement, told.get("default_format", ["TabSeparated"])[0])
                found = result.bytes() if result is not None else b""
        except ChdbError as error:
            self.refuse(str(error))
        else:
            self.answer(found)

    def refuse(self, reason: str) -> None:
        """As the server does: the code in a header, the words in the body."""
        found = CODE.search(reason)
        code = int(found[1]) if found else 1002
        self.answer(reason.encode(), STATUS.get(code, 500), {"X-ClickHouse-Exception-Code": str(code)})

    def answer(self, body: bytes, status: int = 200, more: dict[str, str] | None = None) -> None:
        """All of it at once."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "X-ClickHouse-Timezone": "UTC", **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def main(folder: str, port: str = "0") -> None:
    """Until it is ended."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    Face.engine = connect(folder)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Face)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
