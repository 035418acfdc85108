"""Each layer of the SQL guard alone, all others off: which hostile texts does it stop?

The layers below the guard are tried by running the texts: as the owner of every table, who may do anything to them,
with that one layer on. What would not run even so (a syntax error, a missing right) counts for none of them.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus

from tests.corpora import KINDS, Text, kind_of
from tests.support import Lab
from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.sources.postgres.reader import PostgresReader
from vitrina.sql.guard import check_select
from vitrina.sql.vet import called

SCHEMAS = ["content", "ugc"]
LAYERS = ("grammar", "calls", "role", "read only", "one statement", "timeouts")
RUNS, REFUSED, ENDLESS = "runs", "refused", "never ends"
# A function that is called for every row of a join is called enough.
FEW = "DELETE FROM content.film_work WHERE id NOT IN (SELECT id FROM content.film_work ORDER BY id LIMIT 3)"
OWNER = """
    DO $$ DECLARE r record; BEGIN
        FOR r IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE nspname IN ('content', 'ugc', 'auth', 'etl') AND relkind IN ('r', 'v', 'm')
                 AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'e') LOOP
            EXECUTE format('ALTER TABLE %s OWNER TO {owner}', r.name);
        END LOOP;
        FOR r IN SELECT nspname AS name FROM pg_namespace WHERE nspname IN ('content', 'ugc', 'auth', 'etl') LOOP
            EXECUTE format('ALTER SCHEMA %I OWNER TO {owner}', r.name);
        END LOOP;
    END $$;
    GRANT ALL ON ALL SEQUENCES IN SCHEMA content TO {owner}
"""


@dataclass(frozen=True)
class Verdicts:
    """Which texts each layer stops by itself."""

    stopped: dict[str, set[str]]

    def only(self, layer: str) -> set[str]:
        """What no other layer stops."""
        others = set[str]().union(*(names for other, names in self.stopped.items() if other != layer))
        return self.stopped[layer] - others


def examine(lab: Lab, texts: list[Text]) -> Verdicts:
    """All layers, one at a time."""
    with owning(lab) as owner, lab.connections.read_warehouse() as reader:
        read_only = Trial(lab, owner, begin="BEGIN READ ONLY").run_apart(texts)
        endless = {name for name, how in read_only.items() if how == ENDLESS}
        rest = [text for text in texts if text.name not in endless]
        runs = endless | {name for name, how in Trial(lab, owner).run(rest).items() if how != REFUSED}
        return Verdicts(
            {
                "grammar": {text.name for text in texts if refused_by_grammar(text)},
                "calls": {text.name for text in texts if refused_by_calls(reader, text)},
                "role": refused(Trial(lab, "vitrina_reader").run(rest)) & runs,
                "read only": refused(read_only) & runs,
                "one statement": refused(Trial(lab, owner, prepared=True).run(texts)) & runs,
                "timeouts": endless,
            }
        )


@contextmanager
def owning(lab: Lab) -> Iterator[str]:
    """A role that owns every table, of sources that are small enough."""
    owner = f"owner_{lab.db.info.dbname}"
    lab.sql(f"CREATE ROLE {owner} LOGIN")
    try:
        lab.sql(OWNER.format(owner=owner))
        lab.sql(FEW)
        yield owner
    finally:
        lab.sql(f"REASSIGN OWNED BY {owner} TO CURRENT_USER; DROP OWNED BY {owner}; DROP ROLE {owner}")


def refused_by_grammar(text: Text) -> bool:
    """By the first look: no database is asked."""
    try:
        check_select(text.query, SCHEMAS)
    except ConfigError:
        return True
    return False


def refused_by_calls(reader: PostgresReader, text: Text) -> bool:
    """By the second look, with the first switched off."""
    try:
        findings = called(reader.conn, reader.settings, text.query, schemas=SCHEMAS)
    except (VitrinaError, psycopg.Error):
        return True
    return any(finding.level == "error" for finding in findings)


def refused(outcomes: dict[str, str]) -> set[str]:
    """The names of those."""
    return {name for name, how in outcomes.items() if how == REFUSED}


@dataclass(frozen=True)
class Trial:
    """Runs texts as somebody, each in a transaction that is rolled back."""

    lab: Lab
    role: str
    begin: str = "BEGIN"
    prepared: bool = False  # by the extended protocol, which takes one statement

    def run(self, texts: list[Text], patience: str = "60s") -> dict[str, str]:
        """How each of them ends, one after the other."""
        with self._connect(patience) as conn:
            return {text.name: self._try(conn, text) for text in texts}

    def run_apart(self, texts: list[Text]) -> dict[str, str]:
        """The same where none holds up another: those that take long are tried side by side, with more patience."""
        ends = self.run(texts, "100ms")
        slow = [text for text in texts if ends[text.name] == ENDLESS]
        with ThreadPoolExecutor(len(slow) or 1) as pool:
            again = pool.map(lambda text: self.run([text], "5s"), slow)
        return ends | {name: how for end in again for name, how in end.items()}

    def _connect(self, patience: str) -> psycopg.Connection:
        path = self.lab.connections.reading["search_path"].replace(" ", "")
        options = f"-c search_path={path} -c statement_timeout={patience}"
        conninfo = make_conninfo(self.lab.conninfo, user=self.role, options=options)
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)

    def _try(self, conn: psycopg.Connection, text: Text) -> str:
        conn.execute(self.begin.encode())
        try:
            self._execute(conn, text.query.encode())
        except psycopg.errors.QueryCanceled:
            return ENDLESS
        except psycopg.Error:
            return REFUSED
        finally:
            conn.execute("ROLLBACK")
            conn.execute("DISCARD ALL")
        return RUNS

    def _execute(self, conn: psycopg.Connection, query: bytes) -> None:
        if not self.prepared:
            psycopg.ClientCursor(conn).execute(query)
            return
        result = conn.pgconn.prepare(b"", query)
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)


def table(verdicts: Verdicts, texts: list[Text]) -> str:
    """The verdicts in numbers, as Markdown: what each layer stops of each kind, and what only it stops."""
    names = {kind: {text.name for text in texts if kind_of(text) == kind} for kind in KINDS}
    rows = [
        [kind, *(f"{len(verdicts.stopped[layer] & of)}" for layer in LAYERS), f"{len(of)}"]
        for kind, of in names.items()
    ]
    rows.append(["**all**", *(f"**{len(verdicts.stopped[layer])}**" for layer in LAYERS), f"**{len(texts)}**"])
    rows.append(["stopped by no other layer", *(f"{len(verdicts.only(layer))}" for layer in LAYERS), ""])
    head = ["what a text tries", *LAYERS, "texts"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
