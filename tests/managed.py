"""A Postgres as a service gives it: TLS and passwords by TCP, no superuser for anybody, `wal_level = replica` at first.

The superuser, who is the service itself, comes in by the socket.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests import room
from tests.acceptance.processes import free_port
from tests.support import FAST
from tests.tls import tls_before
from vitrina.embedded.postgres import EmbeddedPostgres

VERSIONS = {"15": Path("/usr/lib/postgresql/15/bin"), "18": None}  # None: the one that comes along
PASSWORD = "a pass/word@home"
QUICK_START = FAST | {"wal_level": "replica", "shared_buffers": "32MB", "max_connections": "60"}


@dataclass
class Managed:
    """One server, for the tests of a module: each leaves no roles and no databases behind.

    TLS is in front of it, since the one that comes along was built without.
    """

    server: EmbeddedPostgres
    authority: Path
    port: str

    def run(self, *statements: str, database: str = "postgres") -> list[Any]:
        """As the service; the rows of the last."""
        with psycopg.connect(self.server.conninfo(database), autocommit=True) as conn:
            for statement in statements:
                done = conn.execute(statement.encode())
            return done.fetchall() if done.description else []

    def inside(self, database: str, user: str) -> str:
        """By the socket, which asks for no password."""
        return self.server.conninfo(database, user)

    def address(self, database: str, user: str, password: str = PASSWORD) -> str:
        """By TCP, with TLS that is verified."""
        return make_conninfo(host="localhost", port=self.port, dbname=database, user=user, password=password,
                             sslmode="verify-full", sslrootcert=str(self.authority))  # fmt: skip

    def user(self, name: str, attributes: str = "", password: str = PASSWORD) -> None:
        """Who signs in."""
        text = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} " + attributes)
        with psycopg.connect(self.server.conninfo(), autocommit=True) as conn:
            conn.execute(text.format(sql.Identifier(name), sql.Literal(password)))

    def restart(self) -> None:
        """As a service does after a change of its parameters."""
        self.server.restart()

    def clear(self) -> None:
        """Slots, databases and roles of the last test."""
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename <> 'postgres'")
        self.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL")
        for (name,) in self.run("SELECT quote_literal(slot_name) FROM pg_replication_slots"):
            self.run(f"SELECT pg_drop_replication_slot({name})")
        ours = "SELECT quote_ident(datname) FROM pg_database WHERE datname <> 'postgres' AND NOT datistemplate"
        for (name,) in self.run(ours):
            self.run(f"DROP DATABASE {name} WITH (FORCE)")
        roles = self.run("SELECT quote_ident(rolname) FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'postgres'")
        for (name,) in roles:
            self.run(f"DROP OWNED BY {name}")
        self.run(*(f"DROP ROLE {name}" for (name,) in roles), "SELECT 1")


@contextmanager
def managed(version: str, **settings: str) -> Iterator[Managed]:
    """A server of that version; without its programs the test is skipped, unless VITRINA_REQUIRE forbids that."""
    programs = VERSIONS[version]
    if programs and not programs.exists():
        if f"pg{version}" in os.environ.get("VITRINA_REQUIRE", "").split(","):
            pytest.fail(f"VITRINA_REQUIRE has pg{version}: there is no {programs}")
        pytest.skip(f"there is no {programs}: apt install postgresql-{version}")
    with room.home("vitrina-managed-") as home:
        port = free_port()
        server = EmbeddedPostgres(home / "postgres", bin_dir=programs, port=int(port), settings=QUICK_START | settings)
        try:
            server.start()
            certificate, key = certify(home)
            with tls_before(int(port), certificate, key) as door:
                yield Managed(server, certificate, door)
        finally:
            server.purge()


def certify(home: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    certificate, key = home / "ca.pem", home / "key.pem"
    subprocess.run(
        ["openssl", "req", "-new", "-x509", "-days", "2", "-nodes", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-out", str(certificate), "-keyout", str(key)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key
