"""Tokens, of which only hashes are stored."""

import hashlib
import secrets
from dataclasses import dataclass

from psycopg import errors
from psycopg.rows import DictRow

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, fetch_all, fetch_one, queries, translated

SQL = queries("tokens")
PREFIX = "vtr_"


@dataclass(frozen=True)
class TokenRepo:
    """Table `etl_tokens`."""

    conn: Connection

    def create(self, name: str, role: str) -> str:
        """A new token: shown once, stored as a hash."""
        token = PREFIX + secrets.token_urlsafe(32)
        try:
            with self.conn.transaction():
                self.conn.execute(SQL["add"], {"name": name, "hash": hashed(token), "role": role})
        except errors.UniqueViolation as error:
            raise ConfigError(
                f"there is a token {name!r} already", "choose another name, or revoke that one"
            ) from error
        return token

    def keep(self, name: str, token: str, role: str) -> None:
        """A token that somebody else made; another one of this name, and its sessions, end. One revoked stays so."""
        params = {"name": name, "hash": hashed(token), "role": role}
        with translated(), self.conn.transaction():
            self.conn.execute(SQL["displace"], params)
            self.conn.execute(SQL["keep"], params)

    def find(self, token: str) -> DictRow | None:
        """Whose token it is; None if nobody's, or revoked."""
        return fetch_one(self.conn, SQL["find"], {"hash": hashed(token)})

    def revoke(self, name: str) -> bool:
        """From now on it opens nothing."""
        return fetch_one(self.conn, SQL["revoke"], {"name": name}) is not None

    def all(self) -> list[DictRow]:
        """Names and roles, never hashes."""
        return fetch_all(self.conn, SQL["list"])

    def any(self) -> bool:
        """Whether anybody can sign in at all."""
        with translated():
            row = fetch_one(self.conn, SQL["any"])
        return bool(row and row["yes"])


def hashed(token: str) -> bytes:
    """What is stored of a secret."""
    return hashlib.sha256(token.encode()).digest()
