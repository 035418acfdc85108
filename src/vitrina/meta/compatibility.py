"""Whether this program and a meta-store go together, so that processes can be replaced one after another.

A migration is applied first, beside programs that are older than it. Its first lines say how it stands to them:

-- compatible-with: 0007    the oldest program (by the newest migration that it knows) that works on the new schema
-- needed: no               programs that know this migration work without it too
"""

import re
from dataclasses import dataclass
from pathlib import Path

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, connect, fetch_one, queries

VERSIONS = Path(__file__).parent / "migrations" / "versions"
SQL = queries("schema")
TOLD_SINCE = "0007"  # the migration that keeps the history


@dataclass(frozen=True)
class Migration:
    """One, as this program knows it."""

    version: str
    compatible_with: str
    needed: bool
    file: Path


@dataclass(frozen=True)
class Schema:
    """A meta-store as it is; no version: there is none yet."""

    version: str = ""
    compatible_with: str = ""
    program: str = ""


def known() -> list[Migration]:
    """The migrations of this program, oldest first."""
    return [_read(file) for file in sorted(VERSIONS.glob("*.sql"))]


def newest() -> str:
    """The schema that this program brings."""
    return known()[-1].version


def find(conn: Connection) -> Schema:
    """What the database says; a history that is not kept yet means: exactly this version."""
    exists = fetch_one(conn, SQL["exists"])
    row = fetch_one(conn, SQL["version"]) if exists and exists["migrated"] else None
    if not exists or row is None:
        return Schema()
    history = fetch_one(conn, SQL["history"]) if exists["told"] else None
    told = history if history and history["compatible_with"] else {"compatible_with": row["version_num"], "program": ""}
    return Schema(row["version_num"], told["compatible_with"], told["program"])


def require(conninfo: str) -> None:
    """Refuse to work with a meta-store that this program does not fit."""
    enter(conninfo, "schema").close()


def enter(conninfo: str, name: str) -> Connection:
    """A session at a meta-store that this program fits."""
    conn = connect(conninfo, name)
    try:
        wrong = misfit(find(conn))
        if wrong:
            raise wrong
    except BaseException:
        conn.close()
        raise
    return conn


def misfit(schema: Schema) -> ConfigError | None:
    """What is wrong with a meta-store for this program, and the remedy."""
    migrations = known()
    minimum, newest_known = max(m.version for m in migrations if m.needed), migrations[-1].version
    if schema.version < minimum:
        is_at = f"is at {schema.version}" if schema.version else "is not there"
        return ConfigError(f"the meta-store {is_at}, and this program needs {minimum}", "run: vitrina migrate")
    if schema.compatible_with > newest_known:
        return ConfigError(
            f"the meta-store, at {schema.version}, works with programs from {schema.compatible_with} on,"
            f" and this one is of {newest_known}",
            f"install Vitrina {schema.program} or newer",
        )
    return None


def _read(file: Path) -> Migration:
    """One that says nothing of older programs breaks them, to be safe."""
    version, head = file.stem.split("_")[0], file.read_text().split("\n\n")[0]
    told = re.search(r"^-- compatible-with: (\d{4})$", head, re.MULTILINE)
    needed = not re.search(r"^-- needed: no$", head, re.MULTILINE)
    return Migration(version, told[1] if told else version, needed, file)
