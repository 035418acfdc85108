"""docs/own-postgres.md as a team follows it, to the end: on a server like a service's, with the rights that it has."""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.docs.blocks import Block, read
from tests.docs.stack import ROOT, Stack, compare
from tests.docs.test_pages import search  # noqa: F401 - a fixture
from tests.managed import VERSIONS, Managed, managed
from tests.patience import wait_for
from tests.support import delete_indexes

PAGE = ROOT / "docs" / "own-postgres.md"
WAYS = {  # the attributes of `team`, and the sections that are for it
    "CREATEROLE": ("CREATEROLE", {"You may create roles", "You may not: triggers"}),
    "CREATEROLE and REPLICATION": ("CREATEROLE REPLICATION", {"You may create roles", "You may read the WAL"}),
    "none": ("", {"A DBA creates roles", "A DBA sets it up"}),
}
AT_MOST = 20  # commands
SHOP = """
    CREATE TABLE customers (id integer PRIMARY KEY, name text NOT NULL, city text);
    CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer REFERENCES customers, paid numeric(10, 2));
    INSERT INTO customers SELECT n, 'Customer ' || n, 'City ' || n % 7 FROM generate_series(1, 200) n;
    INSERT INTO orders SELECT n, n % 200 + 1, n / 7.0 FROM generate_series(1, 2000) n"""


@pytest.fixture(scope="module", params=VERSIONS)
def server(request: pytest.FixtureRequest) -> Iterator[Managed]:
    with managed(request.param) as server:
        yield server


@dataclass
class Team:
    """Whoever follows the page, with what somebody else does for them on the way."""

    server: Managed
    stack: Stack
    sections: set[str]
    commands: int = 1  # git clone
    took: float = field(default_factory=lambda: -time.monotonic())

    def follow(self, page: Path, *, leave_out: str) -> None:
        """Every block that is for this team."""
        lines, section = page.read_text().splitlines(), ""
        for block in read(page):
            heads = [line for line in lines[: block.line] if re.match("##", line)]
            section = heads[-1].lstrip("# ") if heads else ""
            is_variant = bool(heads) and heads[-1].startswith("### ")
            if section != leave_out and (not is_variant or section in self.sections):
                self.do(block)

    def do(self, block: Block) -> None:
        if block.kind == "ini":
            self.note(block.body)
        elif block.kind == "sql":
            self.administer(block.body)
        elif block.kind == "console":
            self.commands += len(block.commands)
            for command, shown in () if block.why_not else block.commands:
                self.type(command, shown)
        elif block.file:
            self.stack.run(block)

    def type(self, command: str, shown: list[str]) -> None:
        """It ends well, or with the error that the page shows and its remedy."""
        fails = any(line.startswith("error: ") for line in shown)
        said = self.stack.bash(f"{command} || [ $? = 1 ]" if fails else command, both=True)
        compare(shown, said)
        if fails:
            self.make_logical()

    def note(self, lines: str) -> None:
        """Into .env."""
        here = f"host=localhost port={self.server.port}"
        text = lines.replace("host=db.example.com port=5432", here)
        file = self.stack.folder / ".env"
        before = file.read_text() if file.exists() else ""
        file.write_text(before + text.replace("/etc/ssl/db-ca.pem", str(self.server.authority)))

    def administer(self, text: str) -> None:
        """As whom the comment above it says; who may create roles is their own administrator."""
        creates = "You may create roles" in self.sections
        for who, statements in re.findall(r"-- as (an administrator|app|a DBA)[^\n]*\n((?:(?!-- ).*\n?)*)", text):
            user = {"an administrator": "team" if creates else "postgres", "app": "app", "a DBA": "postgres"}[who]
            if who == "a DBA":
                self.make_logical()
                self.forget("VITRINA_CAPTURE_OWNERS__SHOP")
            self.psql("shop", user, statements)

    def make_logical(self) -> None:
        """What the administrator does in the service's console."""
        self.server.run("ALTER SYSTEM SET wal_level = 'logical'")
        self.server.restart()

    def forget(self, variable: str) -> None:
        file = self.stack.folder / ".env"
        file.write_text("".join(line for line in file.open() if not line.startswith(variable)))

    def psql(self, database: str, user: str, script: str) -> None:
        program = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", self.server.inside(database, user)]
        done = subprocess.run(program, input=script, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def stack(server: Managed) -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="vitrina-own-"))
    folder.chmod(0o755)
    made = Stack.make(folder)
    made.begin_page()
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
        server.run("ALTER SYSTEM RESET wal_level")
        server.clear()
        server.restart()


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_team_gets_its_three_marts(
    server: Managed, stack: Stack, way: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    attributes, sections = WAYS[way]
    server.run("CREATE DATABASE shop", "CREATE DATABASE marts")
    server.user("team", attributes, "team-secret")
    server.user("app", "", "app-secret")
    server.run("GRANT CREATE ON DATABASE marts TO team", "GRANT CREATE ON DATABASE shop TO app")
    server.run("GRANT CREATE ON SCHEMA public TO app", "SET ROLE app", *SHOP.split(";"), database="shop")
    elastic = request.getfixturevalue("search") if way == "CREATEROLE and REPLICATION" else None
    if elastic:
        stack.environment |= {"ELASTICSEARCH_URL": elastic}
    team = Team(server, stack, sections)
    try:
        follow(team, searched=bool(elastic))
    finally:
        if elastic:
            delete_indexes(elastic, "shop_customers")
    with capsys.disabled():
        print(f"\n{way}: {team.commands} commands, {team.took + time.monotonic():.0f} s")


def follow(team: Team, *, searched: bool) -> None:
    if "A DBA creates roles" in team.sections:
        original = team.type

        def with_dba(command: str, shown: list[str]) -> None:
            original(command, shown)
            if command.endswith("roles.sql"):
                team.psql("marts", "postgres", (team.stack.folder / "roles.sql").read_text())

        team.type = with_dba  # type: ignore[method-assign]
    team.follow(PAGE, leave_out="" if searched else "8. A mart that is searched")
    assert team.commands <= AT_MOST
    seen = "SELECT DISTINCT city FROM analytics.order_cards WHERE customer = 'Customer 5'"
    team.psql("shop", "app", "UPDATE customers SET city = 'Elsewhere' WHERE id = 5")
    wait_for(lambda: team.server.run(seen, database="marts") == [("Elsewhere",)])
    totals = "SELECT sum(orders) FROM analytics.customer_totals"
    assert team.server.run(totals, database="marts") == [(2000,)]


def test_the_page_says_the_same_in_russian() -> None:
    russian = PAGE.parent / "ru" / PAGE.name
    assert [(block.kind, block.body) for block in read(russian)] == [(block.kind, block.body) for block in read(PAGE)]
