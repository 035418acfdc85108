"""Secrets that a deployment chose itself: the database and the API get those that the processes will show."""

import psycopg
from psycopg.conninfo import conninfo_to_dict

from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.meta import roles
from vitrina.meta.conninfo import Said
from vitrina.meta.db import Connection, connect
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
        password = password_of(settings, variable, role)
        if password:
            given.append(_give(conn, settings, variable, password))
    if settings.token:
        TokenRepo(conn).keep(TOKEN_NAME, _token(settings), "admin")
        given.append(f"VITRINA_TOKEN is an admin's token, {TOKEN_NAME!r}")
    return given


def passwords(settings: Settings) -> dict[str, str]:
    """By role, those of the URLs that there are."""
    found = {role: password_of(settings, variable, role) for variable, role in SIGN_INS.items()}
    return {role: password for role, password in found.items() if password}


def require_sign_ins(settings: Settings) -> None:
    """What is set signs in: a process that cannot would wait, and say so only in its log."""
    for variable in SIGN_INS:
        if url := url_of(settings, variable):
            connect(url, "sign-in").close()


def _give(conn: Connection, settings: Settings, variable: str, password: str) -> str:
    """A role that somebody else made, and gave that password, is used as it is."""
    role = SIGN_INS[variable]
    if roles.may_change(conn, role):
        roles.set_password(conn, role, password)
        return f"{role} signs in with the password of {variable}"
    try:
        connect(url_of(settings, variable), "provision").close()
    except VitrinaError as error:
        said = f"{role} cannot sign in by {variable}, nor get its password: {error.message}"
        raise ConfigError(said, "whoever may create roles runs what this prints: vitrina roles --sql") from None
    return f"{role} signs in with the password of {variable} already"


def url_of(settings: Settings, variable: str) -> str:
    """Empty: it is not set."""
    url = getattr(settings, variable.removeprefix("VITRINA_").lower())
    return Said(url.get_secret_value(), variable) if url else ""


def password_of(settings: Settings, variable: str, role: str) -> str | None:
    """None if the URL names none; a URL of somebody else is a mistake, and nobody's password is changed by it."""
    url = url_of(settings, variable)
    if not url:
        return None
    try:
        parts = conninfo_to_dict(url)
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
