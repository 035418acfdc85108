"""Whom a server does not let in, and what lets them in."""

import re
from collections.abc import Mapping
from typing import Any

from psycopg import sql

# What a server answers whom it does not let in, in English and in Russian, since it says so before it knows a language:
# a person has to see to it. Whatever else keeps us out may pass: nobody answers, or not yet, or there are too many.
REFUSALS = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|pg_hba\.conf rejects|does not exist"
    r"|permission denied|must be superuser or replication role|not permitted to log in"
    r"|not currently accepting connections|server does not support SSL"
    r"|invalid \w+ value|certificate|wrong version number|no protocols available|tlsv1 alert|invalid response to SSL"
    r"|не прошёл проверку подлинности|в pg_hba\.conf нет записи|не существует|нет доступа|вход запрещён",
    re.IGNORECASE,
)
LET_IN = "check user, password, database and TLS of {setting}, and what pg_hba.conf there says"
GRANTS = {  # where the server says which right is missing
    r"not permitted to log in": "whoever may change roles there has to run: ALTER ROLE {user} LOGIN",
    r"permission denied for database": "its owner has to run: GRANT CONNECT ON DATABASE {dbname} TO {user}",
    r"WAL sender|replication role": "let {user} read the WAL there (ALTER ROLE {user} REPLICATION, or what the service"
    " has for it), or let {setting} name who may",
}


def quoted(name: str) -> str:
    """A role or a database, as a statement for somebody else has to name it."""
    return sql.Identifier(name).as_string(None)


def is_refusal(said: str) -> bool:
    """Whether somebody answers, and does not let us in."""
    return bool(REFUSALS.search(said))


def remedy(said: str, setting: str, address: Mapping[str, Any]) -> str:
    """What a person has to do; `address` is whom it was asked for."""
    names = {part: quoted(str(address.get(part) or "?")) for part in ("user", "dbname")}
    found = next((text for pattern, text in GRANTS.items() if re.search(pattern, said)), LET_IN)
    return found.format(setting=setting or "the address", **names)
