"""The doctor: everything a newcomer trips over, each with its remedy. Starts nothing, changes nothing."""

import os
import shutil
import sys
from collections.abc import Callable

import typer
from rich.text import Text

from vitrina.cli.checking import Check, Checks, refused
from vitrina.cli.checking_clickhouse import check_clickhouse
from vitrina.cli.checking_files import check_files
from vitrina.cli.checking_lake import check_lake
from vitrina.cli.checking_services import check_api, check_opensearch, check_search
from vitrina.cli.checking_warehouse import check_warehouse
from vitrina.cli.output import STYLES, Format, Output, say_beside, say_json
from vitrina.cli.processes import all_of
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.errors import VitrinaError
from vitrina.domain.wording import Data
from vitrina.settings import Settings
from vitrina.spelling import misspelt
from vitrina.transforms import REGISTRY
from vitrina.transforms.chain import load_transforms

LOW_DISK, FULL_DISK = 5_000_000_000, 500_000_000  # bytes


def doctor(output: Output = Format.text) -> None:
    """Check the set-up, from Python to the runners, and say what to do; exit 1 if something is broken."""
    checks = list(examine(Settings()))
    if output is Format.json:
        say_json([check.as_json() for check in checks])
    else:
        for check in checks:
            say_beside(Text(f"{check.level:5}", STYLES[check.level]), f"{check.about}: {check.message}")
            if check.remedy:
                say_beside(Text(f"{'':5}"), f"remedy: {check.remedy}")
    if any(check.level == "fail" for check in checks):
        raise typer.Exit(1)


def examine(settings: Settings) -> Checks:
    """All checks; one that breaks is a fail of its own and hides no other."""
    for about, check in (
        ("machine", _machine),
        ("settings", _settings),
        ("transforms", _transforms),
        ("processes", _processes),
        ("Postgres", check_warehouse),
        ("Elasticsearch", check_search),
        ("OpenSearch", check_opensearch),
        ("ClickHouse", check_clickhouse),
        ("lake", check_lake),
        ("files", check_files),
        ("API", check_api),
    ):
        yield from _guarded(about, check, settings)


def _guarded(about: str, check: Callable[[Settings], Checks], settings: Settings) -> Checks:
    try:
        yield from check(settings)
    except VitrinaError as error:
        yield refused(about, error)


def _machine(settings: Settings) -> Checks:
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= (3, 11):  # noqa: UP036 - pip checks, a folder on PYTHONPATH does not
        yield Check("ok", "Python", Diagnosis.PYTHON, {"version": python})
    else:
        yield Check("fail", "Python", Diagnosis.PYTHON_OLD, {"version": python})
    home = settings.home.absolute()
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        code = Diagnosis.HOME_WRITABLE if existing == home else Diagnosis.HOME_CAN_BE_MADE
        yield Check("ok", "home", code, {"folder": str(home)})
    else:
        yield Check("fail", "home", Diagnosis.HOME_CLOSED, {"folder": str(existing)})
    yield _disk(str(existing), shutil.disk_usage(existing).free)


def _disk(folder: str, free: int) -> Check:
    data: Data = {"free": free / 1e9, "folder": folder}
    if free >= LOW_DISK:
        return Check("ok", "disk", Diagnosis.DISK, data)
    return Check("fail" if free < FULL_DISK else "warn", "disk", Diagnosis.DISK_LOW, data)


def _settings(_: Settings) -> Checks:
    for given, meant in misspelt():
        yield Check("warn", given, Diagnosis.NO_SETTING, {"meant": meant})


def _transforms(settings: Settings) -> Checks:
    try:
        load_transforms(settings.transform_modules)
    except VitrinaError as error:
        yield refused("transforms", error)
    else:
        code = Diagnosis.TRANSFORMS if REGISTRY else Diagnosis.NO_TRANSFORMS
        yield Check("ok", "transforms", code, {"count": len(REGISTRY), "names": sorted(REGISTRY)})


def _processes(settings: Settings) -> Checks:
    """Those that `vitrina up` started keep what was set then."""
    for process in all_of(settings.home):
        if names := process.changes(settings):
            yield Check("warn", process.name, Diagnosis.OTHER_SETTINGS, {"names": names})
