"""Errors of ours by code: what a finding makes of them, and in which language."""

import pytest

from vitrina.control.console.i18n import Words
from vitrina.domain.errors import ConfigError
from vitrina.domain.findings import Code, refused
from vitrina.domain.pipeline import Pipeline, resolve
from vitrina.domain.refusals import Refusal
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
