"""Errors of ours by code: what a finding makes of them, and in which language."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import vitrina
from vitrina.control.console.i18n import Words
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code, refused
from vitrina.domain.mart_refusals import MartRefusal
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.domain.refusals import Refusal
from vitrina.domain.schedule import check_schedule
from vitrina.domain.source_refusals import SourceRefusal
from vitrina.domain.wording import Worded
from vitrina.files import Document
from vitrina.sinks.clickhouse.types import Kind
from vitrina.sinks.parquet.types import KeptType
from vitrina.sources.source import Ability, lack
from vitrina.sql.describe import Column
from vitrina.sql.guard import check_select


def test_an_error_with_a_code_is_a_finding_of_that_code_in_any_language() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(Pipeline(name="films", source_query="SELECT 1 AS id"))
    found = refused("configuration", caught.value)
    assert (found.code, found.data) == (Refusal.NO_TARGET, {"name": "films"})
    assert (found.message, found.remedy) == (caught.value.message, caught.value.remedy)
    assert found.said_in(Words("ru"))[0] == "конвейер 'films' не называет target_table"


def test_its_place_is_kept() -> None:
    with pytest.raises(ConfigError) as caught:
        check_select("SELECT 1 FROM FROM", ["content"])
    found = refused("source_query", caught.value, {"at": caught.value.at})
    assert (found.code, found.data["at"]) == (Refusal.NOT_PARSED, 15)
    assert "syntax error" in found.message


def test_what_another_program_says_is_refused_in_its_words() -> None:
    found = refused("lake", ConfigError("no such bucket", "create it"))
    assert (found.code, found.message, found.remedy) == (Code.REFUSED, "no such bucket", "create it")


# Before a run whoever refuses something does it by a code. What other programs say keeps its words.
ASKED = ("domain/*.py", "sql/**/*.py", "sinks/*/shape.py", "sinks/*/types.py", "sinks/registry.py", "sinks/table/*.py")
ASKED_OF_SOURCES = (
    "sources/source.py",
    "sources/registry.py",
    "sources/connections.py",
    "sources/*/guard.py",
    "sources/*/shapes.py",
)
OTHERS_SAY = {"domain/positions.py": 1}  # of a run


def test_what_is_refused_before_a_run_is_refused_by_a_code() -> None:
    package = Path(vitrina.__file__).parent
    files = {file for pattern in (*ASKED, *ASKED_OF_SOURCES) for file in package.glob(pattern)}
    said = {str(file.relative_to(package)): _said_in_words(file) for file in files}
    assert {file: count for file, count in said.items() if count} == OTHERS_SAY
    assert len(files) > 60


def _said_in_words(file: Path) -> int:
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return sum(isinstance(call.func, ast.Name) and call.func.id == "ConfigError" for call in calls)


@pytest.mark.parametrize(
    ("wrong", "code", "russian"),
    [
        (
            lambda: check_schedule("often"),
            Refusal.NO_SCHEDULE,
            "schedule_interval 'often' — ни длительность, ни строка cron",
        ),
        (lambda: check_schedule("TZ=Mars/Olympus 0 0 * * *"), Refusal.NO_TIME_ZONE, "часовой пояс 'Mars/Olympus'"),
        (
            lambda: _typed("bytea"),
            MartRefusal.CLICKHOUSE_TEXT_ONLY,
            "столбец a имеет тип bytea, а в ClickHouse есть только текст",
        ),
        (lambda: _kept("interval[]"), MartRefusal.PARQUET_LIST, "в Parquet нет точного типа"),
        (
            lambda: _lack("files", "speaks_sql"),
            SourceRefusal.SOURCE_CANNOT,
            "источник 'files' не может выполнять запросы",
        ),
        (
            lambda: check_select("SELECT a FROM t FOR UPDATE", ["content"]),
            Refusal.QUERY_NOT_ALLOWED,
            "запрос отклонён: таблица t названа без схемы: напишите schema.t; FOR UPDATE / SHARE",
        ),
    ],
)
def test_what_a_sink_a_schedule_or_a_source_refuses_is_said_in_russian(
    wrong: Callable[[], object], code: Worded, russian: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    found = refused("target_table", caught.value)
    assert found.code is code
    assert russian in found.said_in(Words("ru"))[0]


def test_an_error_about_an_error_keeps_its_code_and_its_language() -> None:
    with pytest.raises(ConfigError) as caught:
        Document(Path("films.yaml"), {"name": "films", "schedule_interval": "often"}).parse()
    found = refused("file", caught.value)
    assert found.code is Refusal.OF_FILE
    assert found.message.startswith("films.yaml: ")


def _typed(type_: str) -> None:
    Kind.of(type_).check("a")


def _kept(type_: str) -> None:
    KeptType.of(Column("a", type_))


def _lack(source: str, ability: Ability) -> None:
    raise lack(source, ability)


def test_what_is_wrong_with_a_field_is_said_in_russian() -> None:
    values = {"name": "films", "batch_size": "many", "schedule_interval": "often", "tasks": [{"body": []}], "kye": []}
    with pytest.raises(ConfigError) as caught:
        Pipeline.parse(values)
    message, _ = refused("configuration", caught.value).said_in(Words("ru"))
    assert "batch_size должно быть целым числом, а не 'many'" in message
    assert "schedule_interval 'often' — ни длительность, ни строка cron — напишите 30s" in message
    assert "body в элемент 1 в tasks должно быть текстом, а не список" in message
    assert "kye неизвестно; имелось в виду key?" in message
    assert message.startswith("конвейер 'films': ")
    assert "must be" not in message
