"""The README and the tutorials are there in English and in Russian, and one says no less than the other."""

import re
from collections import Counter
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {"README.md": "README.ru.md"} | {
    f"docs/{name}.md": f"docs/ru/{name}.md" for name in ("first-mart", "search", "demo", "own-postgres")
}
# What a page makes has a name of its own in each language: the pages are run on one stack.
NAMES = {"popular": "top_films", "film_finder": "film_search", "genre_votes": "genre_scores"}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"(^|\s+)# .*$|^description: .*$|(^|\s+)-- .*$", flags=re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_every_russian_page_has_its_english_and_is_in_the_list() -> None:
    assert {str(file.relative_to(ROOT)) for file in (ROOT / "docs" / "ru").glob("*.md")} < {*PAGES.values()}


@pytest.mark.parametrize(("english", "russian"), PAGES.items())
def test_the_headings_are_the_same(english: str, russian: str) -> None:
    assert headings(russian) == headings(english)


@pytest.mark.parametrize(("english", "russian"), PAGES.items())
def test_the_commands_files_and_queries_are_the_same(english: str, russian: str) -> None:
    assert blocks(russian) == blocks(english)


@pytest.mark.parametrize(("english", "russian"), PAGES.items())
def test_the_links_lead_to_the_same(english: str, russian: str) -> None:
    assert links(russian, but=english) == links(english, but=russian)


@pytest.mark.parametrize("russian", PAGES.values())
def test_it_is_in_russian(russian: str) -> None:
    """Paragraph by paragraph: none was left as it was."""
    prose = [part for part in re.split(r"\n\s*\n", FENCE.sub("", read(russian))) if len(part) > 60]
    assert [part for part in prose if not re.search("[а-яё]", part) and "](" not in part and "<!--" not in part] == []


def read(page: str) -> str:
    """Its text."""
    return (ROOT / page).read_text()


def headings(page: str) -> list[int]:
    """How deep each is."""
    return [len(found[1]) for found in re.finditer(r"^(#+) ", FENCE.sub("", read(page)), flags=re.MULTILINE)]


def blocks(page: str) -> list[tuple[str, list[str]]]:
    """Each with its language and its lines, without what is said to people in them."""
    return [(language, _lines(text)) for language, text in FENCE.findall(read(page))]


def _lines(text: str) -> list[str]:
    for ours, theirs in NAMES.items():
        text = text.replace(ours, theirs)
    return [line.rstrip() for line in REMARK.sub("", text).splitlines() if line.strip()]


def links(page: str, but: str) -> Counter[str]:
    """What is linked to, wherever the page is; a page that is there in Russian counts as its English one."""
    text = FENCE.sub("", read(page))
    targets = Counter(_target(page, link) for link in LINK.findall(text))
    twin = _english(but)
    return Counter({target: count for target, count in targets.items() if target != twin})


def _target(page: str, link: str) -> str:
    if "://" in link:
        return link
    path, _, place = link.partition("#")
    if not path:
        return "this page"  # headings have names of their own
    return _english(normpath(join(dirname(page), path))) + (f"#{place}" if place else "")


def _english(page: str) -> str:
    return next((english for english, russian in PAGES.items() if russian == page), page)
