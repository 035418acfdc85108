"""The documentation is true: every command, file and query in it is run, page by page, on one embedded stack.

One test for all pages, since they share the stack; `VITRINA_DOCS=search.md,live.md` chooses some.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.blocks import RUN, Block, cells, read
from tests.docs.stack import ROOT, Stack, shortened
from tests.receiver import receiving
from tests.sinks import install_example
from tests.support import delete_indexes

DOCS = ROOT / "docs"
MARTS = "/srv/marts"  # of files.md: below the folder of these tests
FIRST = ["README.md", "README.ru.md"]  # where a newcomer begins: these set the stack up
LAST = ["capture.md", "cli.md"]  # take away what others use
TABLES = {"cli.md"}  # whose rows begin with a command
ELSEWHERE = {  # run by tests of their own, which need more than this stack
    "reference.md",  # nothing in it is to be run
    "airflow.md",  # integrations/airflow/tests
    "clickhouse.md",  # integrations/clickhouse/tests
    "client.md",  # tests/acceptance/test_docs_client.py
    "recipes.md",  # tests/acceptance/test_recipes.py
    "own-postgres.md",  # tests/docs/test_own_postgres.py
    "ru/own-postgres.md",
}
NEED_SEARCH = {"search.md", "ru/search.md", "elasticsearch.md"}
REASONS = {
    "needs Docker",
    "needs Kubernetes",
    "needs a collector",
    "needs systemd",
    "a server of one's own; tests/integration/test_backup.py",
    "the tests themselves",
    "the stack of these tests is up already",
    "changes the environment of the project; the tests install it from its own wheel",
    "takes hours",
    "an outline",
}
INDEXES = ("film_search", "film_finder")
# For `make demo`. Its indexes are another test's (tests/acceptance/test_search.py), on the same server.
SMALL_DEMO = {"ARGS": "--no-search --films 400 --ratings 4000"}


def pages() -> list[str]:
    """By name, as a link from docs/ has them; README.md is the project's."""
    found = sorted(str(path.relative_to(DOCS)) for path in [*DOCS.glob("*.md"), *DOCS.glob("ru/*.md")])
    middle = [name for name in found if name not in (*LAST, *ELSEWHERE)]
    chosen = [*FIRST, *middle, *LAST]
    only = os.environ.get("VITRINA_DOCS")
    return [name for name in chosen if name in (*FIRST, *only.split(","))] if only else chosen


def path_of(page: str) -> Path:
    """README.md of the project itself is the way in; docs/README.md is called index.md."""
    return ROOT / page if page in FIRST else DOCS / page


@pytest.fixture
def search(request: pytest.FixtureRequest) -> str | None:
    """The shared Elasticsearch; without one, what needs it is left out."""
    try:
        url: str = request.getfixturevalue("elastic")
    except pytest.skip.Exception:
        return None
    return url


@pytest.fixture
def told() -> Iterator[str]:
    """Where alerts of the pages go."""
    with receiving() as receiver:
        yield receiver.url


@pytest.fixture
def stack(search: str | None, told: str) -> Iterator[Stack]:
    """As after a fresh clone, with the plug-in of extending.md installed."""
    folder = Path(tempfile.mkdtemp(prefix="vitrina-docs-"))
    folder.chmod(0o755)
    (folder / "plug-in").mkdir()
    install_example(folder / "plug-in")
    found = {"ELASTICSEARCH_URL": search} if search else {}
    allowed = {"VITRINA_ALLOWED_ES_INDEXES": "film*", "VITRINA_ALLOWED_OTHER_TARGETS": "sqlite:*"}
    plug_in = {"PYTHONPATH": str(folder / "plug-in"), "SQLITE_MARTS": str(folder)}
    alerts = {"VITRINA_ALERTS__OPS__URL": told, "VITRINA_ALERTS__OPS__SECRET": "of these tests"}
    lake = {"VITRINA_LAKE_URL": f"file://{folder}/lake", "VITRINA_ALLOWED_LAKE_TABLES": "cinema.*"}
    lake |= {"VITRINA_SOURCES__LAKE": f"duckdb://{folder}/vitrina/cinema/"}
    files = {"VITRINA_ALLOWED_FILES": f"file://{folder}/marts/*"}
    made = Stack.make(folder, **files, **found, **allowed, **lake, **plug_in, **alerts, **SMALL_DEMO)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
        for index in INDEXES if search else ():
            delete_indexes(str(search), index)


def test_every_page_does_what_it_says(stack: Stack, search: str | None, subtests: pytest.Subtests) -> None:
    for page in pages():
        with subtests.test(page):
            if page in NEED_SEARCH and not search:
                pytest.skip("there is no Elasticsearch")
            stack.begin_page()
            run_page(stack, page)


def run_page(stack: Stack, page: str) -> None:
    """Block by block; a page of commands has those of its tables too."""
    said, above = "", None
    found = [*read(path_of(page))]
    if page in TABLES:
        found += cells(page, path_of(page).read_text())
    for block in found:
        if block.why_not:
            continue
        try:
            block = replace(block, body=block.body.replace(MARTS, f"{stack.folder.parent}/marts"))
            if block.kind == "json" and not block.file:
                check_answer(block, said if block.is_right_below(above) else None)
            else:
                said, above = stack.run(block), block
        except AssertionError as error:
            raise AssertionError(f"docs, {page}:{block.line}\n{block.body}\n{error}") from None


def check_answer(block: Block, answer: str | None) -> None:
    """JSON right below a command is what it answers; elsewhere it has to be JSON."""
    expected = json.loads(block.body)
    assert answer is None or shortened(json.loads(answer), expected) == expected


def test_what_is_not_run_says_why_and_is_little() -> None:
    left_out = [block for page in pages() for block in read(path_of(page)) if block.why_not]
    strange = {str(block): block.why_not for block in left_out if block.why_not not in REASONS}
    assert strange == {}, f"say one of {sorted(REASONS)}, or run it"
    run = [block for page in pages() for block in read(path_of(page)) if not block.why_not and block.kind in RUN]
    assert os.environ.get("VITRINA_DOCS") or len(left_out) < len(run) / 5
