"""The API process, and the tokens that open it."""

import logging
import socket
from enum import StrEnum
from typing import Annotated

import typer

from vitrina import bootstrap
from vitrina.addresses import is_loopback
from vitrina.cli.output import Format, Output, say, say_json, say_table
from vitrina.domain.errors import ConfigError
from vitrina.log import configure_logging
from vitrina.meta import compatibility
from vitrina.meta.db import connect
from vitrina.meta.repos.tokens import TokenRepo
from vitrina.settings import Settings

STREAM_SECONDS = 2
LOOPBACK = ("127.0.0.1", "::1")
token = typer.Typer(help="Tokens for the API: created, listed, revoked.", no_args_is_help=True)


class RoleName(StrEnum):
    """What a token may do."""

    viewer = "viewer"
    operator = "operator"
    admin = "admin"


def serve(
    host: Annotated[str | None, typer.Option(help="Where to listen; default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Default 8765.")] = None,
) -> None:
    """Serve the API until SIGTERM. It stores pipelines and never executes them."""
    import uvicorn  # only here: together they take as long to import as everything else

    from vitrina.control.api.app import create_app

    settings = Settings()
    configure_logging(settings.log_format)
    warehouse = bootstrap.open_warehouse(settings)
    address = host or settings.host
    compatibility.require(warehouse.direct)
    with connect(warehouse.owner, "serve") as conn:
        if not TokenRepo(conn).any() and not is_loopback(address):
            raise ConfigError(
                f"there is no token, and {address} can be reached from other machines",
                "create one with: vitrina token create NAME --role admin",
            )
    app = create_app(bootstrap.control_plane(warehouse, settings))
    number = settings.port if port is None else port
    _require_free(address, number)
    # Streams have no end of their own: they are cut a moment after SIGTERM.
    uvicorn.run(
        app,
        host=address,
        port=number,
        log_level=logging.WARNING,
        timeout_graceful_shutdown=STREAM_SECONDS,
        forwarded_allow_ips=believed(settings),
    )


def believed(settings: Settings) -> list[str] | None:
    """Who may say how a request reached them; None: uvicorn's own word for this machine, or FORWARDED_ALLOW_IPS."""
    return [*LOOPBACK, *settings.trusted_proxies] if settings.trusted_proxies else None


@token.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is.")],
    role: Annotated[RoleName, typer.Option(help="What it may do.")] = RoleName.viewer,
) -> None:
    """Create a token and print it, this once; only its hash is stored."""
    settings = Settings()
    with compatibility.enter(bootstrap.open_warehouse(settings).owner, "token") as conn:
        typer.echo(TokenRepo(conn).create(name, role))


@token.command("list")
def list_tokens(output: Output = Format.text) -> None:
    """List the names and roles of tokens, never the tokens."""
    with compatibility.enter(bootstrap.open_warehouse(Settings()).owner, "token") as conn:
        rows = TokenRepo(conn).all()
    if output is Format.json:
        say_json([{k: row[k] for k in ("name", "role", "created_at", "revoked_at")} for row in rows])
        return
    if not rows:
        say("no tokens; create one with: vitrina token create NAME")
        return
    days = [[f"{at:%Y-%m-%d}" if at else None for at in (row["created_at"], row["revoked_at"])] for row in rows]
    cells = [[row["name"], row["role"], *day] for row, day in zip(rows, days, strict=True)]
    say_table(["name", "role", "created", "revoked"], cells)


@token.command("revoke")
def revoke(name: Annotated[str, typer.Argument(metavar="NAME", help="Whose.")]) -> None:
    """Revoke a token: from now on it opens nothing."""
    with compatibility.enter(bootstrap.open_warehouse(Settings()).owner, "token") as conn:
        if not TokenRepo(conn).revoke(name):
            raise ConfigError(f"there is no valid token {name!r}", "look at: vitrina token list")
    say(f"token {name!r} is revoked")


def _require_free(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}", "choose another --port or --host"
        ) from error
