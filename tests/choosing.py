"""Which tests touch what, found out from their code: nobody keeps a list.

A test touches the tests' Postgres if it, a fixture of its own, or any function of `tests` that one of them names makes
a database or a server there. Another version of Postgres is tried with those whose subject is what versions differ in
(`VERSIONED`), and with a sample of the rest. The slow ones that come from outside, by the API, the console or as
processes that are killed, are not in it: what SQL these send, quick ones send too.
"""

from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any
from zlib import crc32

import pytest

from tests import capturing, support
from tests.elastic import ELASTICSEARCH
from tools.mutations.guards import GUARDS

SLOW_SECONDS = 1.0  # on two cores with four workers; what takes as long is left to `make test-long`
NOTICING = {test for guard in GUARDS for test in guard.tests}  # never left to it: the quick tests hold every guard
ROOTS = (support.clone, support.make_templates, capturing.own_server)
AROUND = ("__wrapped__", "__func__", "_fixture_function")
OUTSIDE = tuple(f"tests/{folder}/" for folder in ("acceptance", "browser", "contract", "docs", "faults", "infra"))
# Modules about what versions of Postgres differ in: rights and roles, catalogues and the tree of a query, plans, types
# and collations, snapshots, decoding, locks; and whatever composes the statements that converge marts.
VERSIONED = {
    "tests/security": "corpora layers paths owners sealed extensions unguarded trees held replaced",
    "tests/integration": "backup calls capture_continuity capture_install capture_rights captures change_log claims"
    " collations dependencies horizon images incremental key_built_last limits live live_nodes live_recompute live_size"
    " live_trouble live_verdicts marts migrations parallel_reading provisioning restored_source roles staging types"
    " upstream wide writers",
}
WHOLE = {f"{folder}/test_{name}.py" for folder, names in VERSIONED.items() for name in names.split()}
SAMPLE = 4  # of the rest, one in so many
BY_FIXTURE = {"elastic": "elasticsearch", "opensearch": "opensearch", "browser": "browser"}


def mark(item: pytest.Item, seconds: float) -> None:
    """For `-m slow`, `-m elasticsearch`, `-m browser`, `-m sql`, which is what touches Postgres, and `-m versions`."""
    slow = seconds >= SLOW_SECONDS and not NOTICING & names_of(item)
    if slow:
        item.add_marker(pytest.mark.slow)
    for fixture in set(getattr(item, "fixturenames", ())) & BY_FIXTURE.keys():
        item.add_marker(getattr(pytest.mark, BY_FIXTURE[fixture]))
    if "engine" in getattr(item, "fixturenames", ()):
        callspec = getattr(item, "callspec", None)
        item.add_marker(str(callspec.params.get("engine", ELASTICSEARCH) if callspec else ELASTICSEARCH))
    left_out = slow and item.nodeid.startswith(OUTSIDE)
    if not left_out and any(touches_postgres(function) for function in functions_of(item)):
        item.add_marker(pytest.mark.sql)
        if is_for_versions(item.nodeid):
            item.add_marker(pytest.mark.versions)


def is_for_versions(name: str) -> bool:
    """Whether this test, should it touch Postgres, is run on another version of it: always the same ones."""
    return name.partition("::")[0] in WHOLE or crc32(name.encode()) % SAMPLE == 0


def declared_seconds(item: pytest.Item) -> float:
    """What its marker says: minutes are begun with."""
    long = item.get_closest_marker("long")
    return float(long.kwargs.get("seconds", 30)) if long else 0.0


def names_of(item: pytest.Item) -> set[str]:
    """By which a test, the tests that one function makes, and those of a file are asked for."""
    return {item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]}


def functions_of(item: pytest.Item) -> Iterator[Any]:
    """The test, and the fixtures that it is given."""
    if isinstance(item, pytest.Function):
        yield item.obj
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            yield from (definition.func for definition in definitions)


@cache
def touches_postgres(start: Any) -> bool:
    """Whether one of the roots can be reached."""
    seen: set[FunctionType] = set()
    rest = [plain(start)]
    while rest:
        function = rest.pop()
        if function in map(plain, ROOTS):
            return True
        if function not in seen:
            seen.add(function)
            rest.extend(named_in(function))
    return False


@cache
def named_in(function: FunctionType) -> tuple[FunctionType, ...]:
    """The functions and methods of `tests` whose names are in its code."""
    found = [function.__globals__.get(name) for name in names_in(function.__code__)]
    return tuple(other for thing in found for other in callables(thing))


def names_in(code: CodeType) -> set[str]:
    """Its own, and those of the functions and lambdas inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(names_in, inner))


def callables(thing: Any) -> Iterator[FunctionType]:
    """A function of `tests`, or all that a class of `tests` can do."""
    if not str(getattr(thing, "__module__", "")).startswith("tests."):
        return
    members = vars(thing).values() if isinstance(thing, type) else [thing]
    for member in members:
        function = plain(getattr(member, "fget", None) or member)
        if isinstance(function, FunctionType):
            yield function


def plain(function: Any) -> Any:
    """Without what decorators and classes have put around it."""
    while inner := next((found for name in AROUND if (found := getattr(function, name, None))), None):
        function = inner
    return function
