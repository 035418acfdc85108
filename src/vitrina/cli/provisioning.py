"""Secrets that a deployment chose itself: the database and the API get those that the processes will show."""

import psycopg
from psycopg.conninfo import conninfo_to_dict

from vitrina.domain.errors import ConfigError
from vitrina.meta import roles
from vitrina.meta.db import Connection
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import Settings

TOKEN_NAME = "provisioned"
TOKEN_LENGTH = 32  # only a hash is stored, without salt: it must not be guessed
SIGN_INS = {
    "VITRINA_RUNNER_URL": roles.RUNNER,
    "VITRINA_READER_URL": roles.READER,
    "VITRINA_API_ROLE_URL": roles.API,
    "VITRINA_CAPTURE_URL": roles.CAPTURE,
}


def provision(conn: Connection, settings: Settings) -> list[str]:
    """Give the roles the passwords of their URLs, and the API the token of the settings; what was given."""
    given = []
    for variable, role in SIGN_INS.items():
        password = _password(settings, variable, role)
        if password:
            roles.set_password(conn, role, password)
            given.append(f"{role} signs in with the password of {variable}")
    if settings.token:
        TokenRepo(conn).keep(TOKEN_NAME, _token(settings), "admin")
        given.append(f"VITRINA_TOKEN is an admin's token, {TOKEN_NAME!r}")
    return given


def _password(settings: Settings, variable: str, role: str) -> str | None:
    """None if the URL names none; a URL of somebody else is a mistake, and nobody's password is changed by it."""
    url = getattr(settings, variable.removeprefix("VITRINA_").lower())
    if url is None:
        return None
    try:
        parts = conninfo_to_dict(url.get_secret_value())
    except psycopg.ProgrammingError:  # the driver quotes what it cannot read, password and all
        raise ConfigError(f"{variable} cannot be read", f"write postgresql://{role}:password@host:5432/db") from None
    if parts.get("user") != role:
        raise ConfigError(f"{variable} signs in as {parts.get('user')}", f"let it sign in as {role}, or leave it out")
    return str(parts["password"]) if parts.get("password") else None


def _token(settings: Settings) -> str:
    token = settings.token.get_secret_value() if settings.token else ""
    if len(token) < TOKEN_LENGTH:
        raise ConfigError(
            f"VITRINA_TOKEN has {len(token)} characters, and could be guessed",
            f"use {TOKEN_LENGTH} or more random ones, e.g. of: openssl rand -hex 32",
        )
    return token
