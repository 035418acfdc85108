"""Every word of the console has its Russian, and no Russian word is left over."""

import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

from vitrina.control.console import alerts, checking, headings, i18n, lineage, pipelines, views
from vitrina.control.console.fields import NEVER
from vitrina.control.console.signin import UNKNOWN, USED
from vitrina.control.openid.refusal import Why
from vitrina.control.services import details, freshness
from vitrina.domain.events import Event, Measured
from vitrina.domain.faults import FAULTS
from vitrina.domain.findings import Code, Phrase
from vitrina.domain.pipeline import Pipeline
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import REFUSALS
from vitrina.domain.request import CaptureParams, RequestKind
from vitrina.domain.run import RunOptions
from vitrina.meta.compatibility import VERSIONS
from vitrina.sources import sight, source

CONSOLE = Path(i18n.__file__).parent
REASONING = (Path(source.__file__),)  # what a source of some kind cannot do
SEALED = VERSIONS / "0012_sealed.sql"  # whose trigger writes down what becomes of tokens
CALL = re.compile(r"""(?<!\w)(?:_|words)\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""")
# Said through a variable: what a dictionary or a service holds.
INDIRECT = {
    *views.WORDS.values(),
    *(UNKNOWN, USED),
    *(text for why in Why for text in (why.text, why.remedy)),
    *views.JS_WORDS,
    *views.VERBS.values(),
    *views.NAMED,
    *("in place", "staged", "by key", "by key range", "Not Found", "Method Not Allowed"),
    *pipelines.TABS.values(),
    *alerts.WORDS.values(),
    *get_args(freshness.State),
    *details.CAPTURE_COLUMNS,
    *sight.MODES,
    *("view", "materialised view", "foreign table"),
    *(title for title, _ in headings.GROUPS),
    *headings.TITLES.values(),
    *headings.CHOICES.values(),
    *checking.VERDICTS.values(),
    *lineage.KINDS,
    *RequestKind,  # what a runner holds besides runs
    *("viewer", "operator", "admin", "error", "warning", "info", "table", "pipeline", "mart", "query"),
}
# Said by its code: findings, parts of them, and what runs say. What is nothing but a place has nothing to translate.
WORDED = {
    text for worded in (*Code, *Phrase, *REFUSALS, *FAULTS, *Reason, *Event) for text in (worded.text, worded.remedy)
}
CODED = {text for text in WORDED if re.sub(r"\{\w+\}", "", text)}


def _said() -> set[str]:
    texts = [file.read_text() for file in (*CONSOLE.rglob("*.html"), *CONSOLE.glob("*.py"))]
    return {match[1] or match[2] for text in texts for match in CALL.finditer(text)} | INDIRECT


def test_every_word_is_translated() -> None:
    assert sorted(_said() - i18n.catalogue("ru").keys()) == []


def test_every_finding_and_every_event_is_said_in_russian() -> None:
    assert sorted(CODED - i18n.catalogue("ru").keys()) == []


def test_what_people_do_is_a_verb_in_both_languages() -> None:
    """Every action that is written down, by a program or by a trigger of the meta-store."""
    code = "\n".join(file.read_text() for file in (CONSOLE.parent).rglob("*.py"))
    kept = set(re.findall(r'audit\((?:conn|self\.actor), "([\w-]+)"', code)) | set(
        re.findall(r'refused\([^)]*plane, "([^"]+)"', code)
    )
    kept |= set(re.findall(r"'(\w+-token)'", SEALED.read_text())) | {"enable", "disable", "sign-in", "reconcile"}
    kept |= {f"capture-{action}" for action in get_args(CaptureParams.model_fields["action"].annotation)}
    assert kept - views.VERBS.keys() == set()
    assert len(kept) > 12


def test_the_log_is_told_in_the_units_of_the_language() -> None:
    fields = {"ms": 12_345.6, "rows_read": 12_345, "read": "by key", "error": None}
    assert views.shown_fields(fields) == "ms=12345.6 rows_read=12345 read=by key error=null"
    assert views.shown_fields(fields, i18n.Words("ru")) == "12 с прочитано=12\u00a0345 чтение=по ключу ошибка=null"


def test_every_field_that_programs_read_and_every_option_has_a_name() -> None:
    assert {*Measured.__annotations__, *RunOptions.__dataclass_fields__} - {"ms"} <= {*views.NAMED}


def test_every_field_of_a_pipeline_is_explained_in_russian() -> None:
    about = {str(field.description) for name, field in Pipeline.model_fields.items() if name not in NEVER}
    assert sorted(about - i18n.catalogue("ru").keys()) == []


def test_no_translation_is_left_over() -> None:
    code = "\n".join(file.read_text() for file in (*CONSOLE.glob("*.py"), *REASONING))
    about = {field.description for field in Pipeline.model_fields.values()}
    extra = i18n.catalogue("ru").keys() - _said() - about - CODED
    assert sorted(word for word in extra if f'"{word}"' not in code) == []


@pytest.mark.parametrize(("english", "russian"), i18n.catalogue("ru").items())
def test_both_languages_fill_in_the_same(english: str, russian: str) -> None:
    assert _places(english) == _places(russian)


@pytest.mark.parametrize(
    ("cookie", "header", "language"),
    [
        (None, "", "en"),
        (None, "ru-RU,ru;q=0.9,en;q=0.8", "ru"),
        (None, "de,en;q=0.5,ru;q=0.4", "en"),
        (None, "fr;q=x, ru;q=0.1", "ru"),
        ("en", "ru", "en"),
        ("xx", "ru", "ru"),
    ],
)
def test_the_language_is_the_chosen_one_or_the_browsers(cookie: str | None, header: str, language: str) -> None:
    assert i18n.choose(cookie, header) == language


@pytest.mark.parametrize(
    ("seconds", "english", "russian"),
    [
        (0.0034, "3 ms", "3 мс"),
        (0.25, "0.2 s", "0,2 с"),
        (12, "12 s", "12 с"),
        (200, "3 min 20 s", "3 мин 20 с"),
        (7500, "2 h 5 min", "2 ч 5 мин"),
    ],
)
def test_durations_and_numbers_are_written_as_the_language_does(seconds: float, english: str, russian: str) -> None:
    assert i18n.Words("en").duration(seconds) == english
    assert i18n.Words("ru").duration(seconds) == russian
    assert i18n.Words("en").number(1234567) == "1,234,567"
    assert i18n.Words("ru").number(1234567) == "1\N{NO-BREAK SPACE}234\N{NO-BREAK SPACE}567"


@pytest.mark.parametrize(
    ("count", "english", "russian"),
    [(0, "0 B", "0 Б"), (1536, "1.5 kB", "1,5 КБ"), (4_304_707_976, "4.0 GB", "4,0 ГБ"), (None, "–", "–")],
)
def test_bytes_are_told_in_the_unit_that_reads_best(count: int | None, english: str, russian: str) -> None:
    assert i18n.Words("en").size(count) == english
    assert i18n.Words("ru").size(count) == russian


def _places(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}
