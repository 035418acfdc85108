"""A pgbouncer in transaction mode before a server of the tests."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support import Lab, wait_for

POOL = 5  # server sessions for each role: fewer than a busy runner has connections
CONFIGURATION = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 500
server_login_retry = 0.2
"""
USERS = ("postgres", "vitrina_runner", "vitrina_reader", "vitrina_api")


def find_pgbouncer() -> str:
    """The program; without it the test is skipped, unless VITRINA_REQUIRE forbids that."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found:
        return found
    missing = "there is no pgbouncer: apt install pgbouncer"
    if "pgbouncer" in os.environ.get("VITRINA_REQUIRE", "").split(","):
        pytest.fail(f"VITRINA_REQUIRE has pgbouncer: {missing}")
    pytest.skip(missing)


@contextmanager
def pooling(server: str) -> Iterator[int]:
    """The port of a pooler before the server of a unix socket, run by the socket's owner."""
    program, folder = find_pgbouncer(), Path(tempfile.mkdtemp(prefix="vitrina-pool-"))
    owner = Path(str(conninfo_to_dict(server)["host"])).stat()
    (folder / "users").write_text("".join(f'"{user}" ""\n' for user in USERS))
    if os.geteuid() == 0:
        shutil.chown(folder, owner.st_uid)
    process, listen = None, 0
    try:
        while process is None or process.poll() is not None:  # somebody else may have taken the port meanwhile
            listen = configure(folder, server)
            process = start(program, folder, owner)
            wait_for(lambda p=process, port=listen: answers(pooled(port, server)) or p.poll() is not None)  # type: ignore[misc]
        yield listen
    finally:
        if process:
            process.kill()
            process.wait()
        shutil.rmtree(folder)


def configure(folder: Path, server: str) -> int:
    """Its file; the port, which was free a moment ago."""
    parts = conninfo_to_dict(server)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = int(free.getsockname()[1])
    where = {"host": parts["host"], "port": parts.get("port", 5432), "listen": listen, "folder": folder, "pool": POOL}
    (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(**where))
    return listen


def start(program: str, folder: Path, owner: os.stat_result) -> "subprocess.Popen[bytes]":
    """As the user who runs the server: it goes in by the socket."""
    is_root = os.geteuid() == 0
    return subprocess.Popen(
        [program, "-q", str(folder / "pgbouncer.ini")],
        user=owner.st_uid if is_root else None,
        group=owner.st_gid if is_root else None,
        extra_groups=[] if is_root else None,
        cwd="/",
    )


def answers(conninfo: str) -> bool:
    """Whether somebody listens there."""
    try:
        psycopg.connect(conninfo).close()
    except psycopg.OperationalError:
        return False
    return True


def pooled(port: int, conninfo: str) -> str:
    """The same database by way of the pooler."""
    return make_conninfo(conninfo, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")


def pool(lab: Lab, port: int) -> None:
    """Runners of this lab write and read through the pooler; LISTEN and captures go past it."""
    ways = lab.connections
    lab.connections = replace(ways, warehouse=pooled(port, ways.warehouse), reader=pooled(port, ways.reader))
