"""What is generated is current, what is cited exists, and no link leads nowhere."""

import re
from pathlib import Path

import pytest

from tests.docs.refresh import PAGE, reference
from tests.docs.stack import ROOT

TESTS = ROOT / "tests"
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#]+)(?:#([^)]+))?\)")
CITED = re.compile(r"`([\w/]+/test_\w+\.py)::(test_\w+)`")


def test_the_reference_is_current() -> None:
    assert PAGE.read_text() == reference(), "run: make reference"


def requirements() -> list[list[str]]:
    """The cells of each row."""
    rows = re.findall(r"^\| (.+) \|$", (DOCS / "requirements.md").read_text(), flags=re.MULTILINE)
    return [row.split(" | ") for row in rows if not row.startswith("| requirement")]


def test_every_requirement_names_a_test_that_exists() -> None:
    rows = requirements()
    assert len(rows) > 90
    for cells in rows:
        cited = CITED.findall(cells[-1])
        assert len(cells) == 4, cells
        assert cited, f"no test: {cells}"
        for file, name in cited:
            path = ROOT / file if file.startswith("integrations/") else TESTS / file
            assert re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE), f"{file}::{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in LINK.findall(page.read_text()):
        target = (page.parent / link).resolve()
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}#{anchor}"


def anchors(page: Path) -> set[str]:
    """As they are made of headings."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads}
