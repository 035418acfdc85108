"""The roles on a server of one's own: created as far as this user may, the rest named, or a script for who may."""

import secrets
from typing import Annotated

import typer
from psycopg.conninfo import make_conninfo
from rich.text import Text

from vitrina import bootstrap
from vitrina.cli.output import note, program, say_beside
from vitrina.cli.provisioning import SIGN_INS, passwords, require_sign_ins, url_of
from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.meta import compatibility
from vitrina.meta import roles as meta_roles
from vitrina.meta.db import Connection, connect, translated
from vitrina.meta.granting import write_script
from vitrina.meta.roles import RoleReport
from vitrina.settings import Settings

NOTE, NEXT = Text("note: ", "yellow"), Text("next: ")


def roles(
    as_sql: Annotated[
        bool, typer.Option("--sql", help="Print what a database administrator has to run, and change nothing.")
    ] = False,
) -> None:
    """Create the roles and grant what the settings name; on a server of your own, print how to sign in as each."""
    settings = Settings()
    warehouse = bootstrap.open_warehouse(settings)
    if as_sql:
        with connect(warehouse.direct, "roles") as conn:
            _print_script(conn, settings)
        return
    with compatibility.enter(warehouse.direct, "roles") as conn:
        report = meta_roles.ensure_roles(conn, settings.allowed_source_schemas, settings.mart_schemas)
        say_roles(report)
        require_roles(report)
        if warehouse.embedded:
            note("the roles are up to date")
        else:
            _print_sign_ins(conn, warehouse, settings)


def say_roles(report: RoleReport) -> None:
    """What could not be given, each with its statement; what is essential first."""
    _say_degraded(report)
    for lack in report.roots:
        say_beside(NOTE, str(lack), stderr=True)
    if following := len(report.lacks) - len(report.roots):
        say_beside(NOTE, f"{following} rights of roles that are missing could not be given either", stderr=True)
    for said in report.notes:
        say_beside(NOTE, said, stderr=True)


def count_lacks(report: RoleReport) -> None:
    """Just whether all is well, for commands that are run again and again."""
    _say_degraded(report)
    if not report.separated:
        say_beside(NEXT, _remedy(), stderr=True)
    elif report.lacks:
        said = f"{len(report.lacks)} optional rights could not be given"
        say_beside(NOTE, f"{said}; {program()} doctor says what is not possible without each", stderr=True)


def require_roles(report: RoleReport) -> None:
    """Exit 1 if processes cannot sign in as roles of their own."""
    if not report.separated:
        say_beside(NEXT, _remedy(), stderr=True)
        raise typer.Exit(1)


def _say_degraded(report: RoleReport) -> None:
    if not report.separated:
        said = "one role does everything, since not all that the others need could be given"
        say_beside(Text("degraded: ", "yellow"), said, stderr=True)


def _remedy() -> str:
    return f"whoever may create roles runs what this prints: {program()} roles --sql; then: {program()} migrate"


def _print_script(conn: Connection, settings: Settings) -> None:
    with translated():
        for line in write_script(conn, settings.allowed_source_schemas, passwords(settings)):
            typer.echo(line)


def _print_sign_ins(conn: Connection, warehouse: bootstrap.Warehouse, settings: Settings) -> None:
    """New passwords for those that have no URL yet; what is set is used as it is."""
    unset = {variable: role for variable, role in SIGN_INS.items() if not url_of(settings, variable)}
    mine = {variable: role for variable, role in unset.items() if meta_roles.may_change(conn, role)}
    for variable, role in unset.items():
        if variable not in mine:
            note(f"{role} is somebody else's, who knows its password: set {variable}")
    if mine:
        note("the roles are up to date, each of these with a new password; put them into the environment or .env:")
    elif not unset:
        _require_sign_ins(settings)
        note("the roles are up to date, and sign in by the URLs that are set")
    for variable, role in mine.items():
        password = secrets.token_urlsafe(24)
        meta_roles.set_password(conn, role, password)
        owner = warehouse.direct if role == meta_roles.CAPTURE else warehouse.owner  # no pooler passes a WAL stream
        typer.echo(f"{variable}='{make_conninfo(owner, user=role, password=password)}'")
    if unset:
        _require_sign_ins(settings)


def _require_sign_ins(settings: Settings) -> None:
    """Of what is set: roles that were made just now have no password, whatever a URL says."""
    try:
        require_sign_ins(settings)
    except VitrinaError as error:
        given = f"{program()} migrate --provision gives roles the passwords of their URLs"
        raise ConfigError(error.message, f"{given}; {error.remedy}") from error
