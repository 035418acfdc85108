"""The SQL guard against a folder of SQL that others wrote: `python tools/regress.py postgresql-18.6/src/test/regress`.

Runs Postgres' own regression suite, or any folder of .sql files, statement by statement on a server of its own, and
shows every SELECT to the guard just before it is run, tables without a schema taken for those of `public`. What is
accepted is run again, as the superuser: a text that writes, locks, sets, sleeps or calls what reaches out of the query
is hostile, and there must be none. What cannot be resolved (a temporary table, one of an open transaction, an error
that the suite makes on purpose) is counted apart.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import postgast
import psycopg
from google.protobuf.message import DecodeError

from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.embedded.postgres import EmbeddedPostgres
from vitrina.meta.db import Connection, connect
from vitrina.sql.guard import _walk, check_select
from vitrina.sql.vet import called

ALLOWED = ["public"]
SESSION = {"search_path": "pg_catalog, public, pg_temp", "statement_timeout": "10s", "lock_timeout": "100ms"}
VARIABLE = re.compile(r""":'(\w+)'|:"(\w+)"|:(\w+)""")
BACKSLASH = re.compile(r"\\(g\w*|crosstabview|watch|bind|parse|close)\b.*$", re.MULTILINE)
COPIES = re.compile(r"\bcopy\b.*\bstd(in|out)\b", re.IGNORECASE | re.DOTALL)  # with the client
REACHES_OUT = re.compile(
    r"\b(pg_read_\w+|pg_ls_\w+|pg_stat_file|lo_\w+|dblink\w*|pg_sleep\w*|pg_(terminate|cancel)_backend|pg_notify"
    r"|pg_(try_)?advisory\w*|set_config|query_to_xml\w*|table_to_xml\w*|cursor_to_xml\w*|(schema|database)_to_xml\w*"
    r"|ts_stat|nextval|setval|pg_logical\w*|pg_switch_wal|pg_reload_conf|pg_rotate_logfile|txid_current)\s*\(",
    re.IGNORECASE,
)
LITERAL = re.compile(r"'(?:[^']|'')*'")
TRACES = """
    SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS wrote,
           EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locked,
           (SELECT count(*) FROM pg_settings WHERE source = 'session') AS settings
"""


@dataclass
class Tally:
    """What became of the SELECTs."""

    seen: int = 0
    accepted: int = 0
    unresolved: int = 0
    hostile: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of refusals: a text counts once for each of its own

    @property
    def refused(self) -> int:
        """By the guard, for a reason of its own."""
        return self.seen - self.accepted - self.unresolved

    def show(self, most: int) -> None:
        """For people."""
        print(f"{self.seen:,} SELECTs: {self.accepted:,} accepted, {self.refused:,} refused,", end=" ")
        print(f"{self.unresolved:,} that the server does not understand either")
        print(f"hostile and accepted: {len(self.hostile)}")
        for text in self.hostile:
            print(f"  {' '.join(text.split())[:200]}")
        for reason, count in self.reasons.most_common(most):
            print(f"{count:6,}  {reason}")


def main(arguments: Sequence[str]) -> int:
    """1 if something hostile was accepted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most", type=int, default=40, help="reasons that are shown")
    asked = parser.parse_args(arguments)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="vitrina-regress-") as home:
        server = EmbeddedPostgres(Path(home) / "postgres", settings={"fsync": "off", "autovacuum": "off"})
        server.start()
        try:
            for file in files(asked.folder):
                show_to_guard(server.conninfo(), file, asked.folder, tally)
        finally:
            server.purge()
    tally.show(asked.most)
    return min(len(tally.hostile), 1)


def files(folder: Path) -> list[Path]:
    """In the order of the suite's schedule, if there is one."""
    schedule, found = folder / "parallel_schedule", sorted(folder.rglob("*.sql"))
    if not schedule.exists():
        return found
    named = re.findall(r"^test: (.+)$", schedule.read_text(), re.MULTILINE)
    order = {name: number for number, name in enumerate(" ".join(named).split())}
    return sorted(found, key=lambda file: order.get(file.stem, len(order)))


def show_to_guard(conninfo: str, file: Path, folder: Path, tally: Tally) -> None:
    """Every SELECT of a file, and then run the statement, as the file's own session."""
    with closing(psycopg.connect(conninfo, autocommit=True, cursor_factory=psycopg.ClientCursor)) as runs:
        runs.execute("SET statement_timeout = '10s'; SET lock_timeout = '1s'")
        with connect(conninfo, "guard") as conn:
            for statement in statements(file, folder):
                for select in as_select(statement):
                    judge(conn, select, tally)
                try:
                    if not COPIES.search(statement):
                        runs.execute(statement.encode())
                except psycopg.Error:
                    if runs.closed or runs.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                        return


def statements(file: Path, folder: Path) -> Iterator[str]:
    """Without what is psql's: variables put in, commands and data of COPY left out."""
    variables, lines, data = {"abs_srcdir": str(folder.resolve())}, [], False
    for line in file.read_text(errors="replace").splitlines():
        if data:
            data = line != "\\."
        elif line.startswith("\\set "):
            _, name, *parts = line.split()
            variables[name] = "".join(variables.get(part[1:], part).strip("'") for part in parts)
        elif not line.startswith("\\"):
            lines.append(VARIABLE.sub(lambda found: put_in(found, variables), line))
            data = bool(re.search(r"\bfrom stdin\b.*;", line, re.IGNORECASE))
    text = BACKSLASH.sub(";", "\n".join(lines))
    try:
        return iter(postgast.split(text, method="scanner"))
    except postgast.PgQueryError:
        return iter(re.split(r";\s*\n", text))


def put_in(found: re.Match[str], variables: dict[str, str]) -> str:
    """The value of a variable of psql's; what is none stays."""
    name = found[1] or found[2] or found[3]
    if name not in variables:
        return found[0]
    return f"'{variables[name]}'" if found[1] else variables[name]


def as_select(statement: str) -> Iterator[str]:
    """The statement, if it is a SELECT, with a schema for each table."""
    try:
        tree = postgast.parse(statement)
        if len(tree.stmts) != 1 or not tree.stmts[0].stmt.HasField("select_stmt"):
            return
        for node, ctes in _walk(tree.stmts[0].stmt.select_stmt, frozenset()):
            if type(node).__name__ == "RangeVar" and not node.schemaname and node.relname not in ctes:
                node.schemaname = "pg_catalog" if node.relname.startswith("pg_") else "public"
        yield postgast.deparse(tree)
    except (postgast.PgQueryError, DecodeError, RecursionError):
        return


def judge(conn: Connection, select: str, tally: Tally) -> None:
    """Count what the guard says of it."""
    tally.seen += 1
    try:
        check_select(select, ALLOWED)
    except ConfigError as error:
        tally.reasons.update({kind(part) for part in error.message.split(": ", 1)[-1].split("; ")})
        return
    try:
        findings = called(conn, SESSION, select, schemas=ALLOWED)
    except VitrinaError:
        tally.unresolved += 1
        return
    wrong = {kind(finding.message) for finding in findings if finding.level == "error"}
    tally.reasons.update(wrong)
    if not wrong:
        tally.accepted += 1
        if is_hostile(conn, select):
            tally.hostile.append(select)


def kind(message: str) -> str:
    """A reason, as it is the same for many texts."""
    message = re.sub(r"table \S+ has no schema.*", "a table without a schema", message)
    return re.sub(r"(public|content)\.\S+", r"\1.…", message).split(" (VITRINA")[0][:140]


def is_hostile(conn: Connection, select: str) -> bool:
    """Whether it leaves a trace in a transaction that could do anything, or names what must not be called."""
    if REACHES_OUT.search(LITERAL.sub("''", select)):
        return True
    with conn.transaction(force_rollback=True):
        for setting, value in SESSION.items():
            conn.execute("SELECT set_config(%s, %s, true)", [setting, value])
        before = conn.execute(TRACES.encode()).fetchone()
        try:
            with conn.transaction():
                conn.execute(select.encode(), prepare=False)
                return conn.execute(TRACES.encode()).fetchone() != before
        except psycopg.errors.QueryCanceled:
            return "generate_series" not in select  # honest, and long
        except psycopg.Error:
            return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
