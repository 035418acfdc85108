"""Sessions of the console and the one-time links that open them; of their secrets only hashes are stored."""

import secrets
from dataclasses import dataclass

from psycopg.rows import DictRow

from vitrina.domain.errors import ConfigError
from vitrina.meta.db import Connection, fetch_one, queries, translated
from vitrina.meta.repos.tokens import hashed

SQL = queries("sessions")
SESSION_SECONDS = 7 * 86_400
LINK_SECONDS = 900


@dataclass(frozen=True)
class SessionRepo:
    """Table `etl_sessions`."""

    conn: Connection

    def link(self, token: str) -> str:
        """The secret of a link that signs its first user in as this token, within a quarter of an hour."""
        secret = secrets.token_urlsafe(32)
        params = {"hash": hashed(secret), "token": hashed(token), "seconds": LINK_SECONDS}
        if fetch_one(self.conn, SQL["link"], params) is None:
            raise ConfigError("the token is unknown or revoked", "create one with: vitrina token create NAME")
        return secret

    def open(self, token: str) -> tuple[str, DictRow] | None:
        """A new session's secret, and whose it is; None: the token is unknown or revoked."""
        return self._begin("open", token)

    def exchange(self, link: str) -> tuple[str, DictRow] | None:
        """The same for a link, which is used up; None: it is unknown, used or too old."""
        return self._begin("exchange", link)

    def vouched(self, name: str, role: str, issuer: str, seconds: float) -> str:
        """A new session's secret, for whom a provider of OpenID Connect vouches."""
        session = secrets.token_urlsafe(32)
        params = {"hash": hashed(session), "name": name, "role": role, "issuer": issuer, "seconds": seconds}
        with translated():
            self.conn.execute(SQL["prune"])
            self.conn.execute(SQL["vouched"], params)
        return session

    def use(self, answer: str, seconds: float) -> bool:
        """An answer of a provider, by its state: False if it has been used."""
        params = {"hash": hashed(f"answer {answer}"), "seconds": seconds}
        return fetch_one(self.conn, SQL["use"], params) is not None

    def find(self, secret: str, issuer: str | None = None) -> DictRow | None:
        """Whose session it is; None if nobody's. One without a token holds as long as its issuer is trusted."""
        return fetch_one(self.conn, SQL["find"], {"hash": hashed(secret), "issuer": issuer})

    def close(self, secret: str) -> None:
        """Sign out."""
        with translated():
            self.conn.execute(SQL["close"], {"hash": hashed(secret)})

    def _begin(self, how: str, secret: str) -> tuple[str, DictRow] | None:
        with translated():
            self.conn.execute(SQL["prune"])
        session = secrets.token_urlsafe(32)
        params = {"hash": hashed(session), "secret": hashed(secret), "seconds": SESSION_SECONDS}
        who = fetch_one(self.conn, SQL[how], params)
        return (session, who) if who else None
