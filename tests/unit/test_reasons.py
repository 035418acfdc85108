"""Reasons are codes with data: kept as such, and said in the language of whoever looks."""

import json
import pickle

from vitrina.control.console.i18n import Words
from vitrina.domain.events import Event, as_stored, fields_of, shown
from vitrina.domain.findings import Code, Finding
from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because

RUSSIAN = Words("ru")
NESTED = Reason.DEPENDS_ON.of(column="film_id", reason=Reason.GENERATED.of(column="slug"))
FINDING = Finding("warning", "mode", Code.REFRESHES_EVERYTHING, {"table": "content.film", "reason": NESTED})
SAID = "film_id зависит от того, за чем нельзя проследить: вычисляемый столбец slug"


def test_a_reason_with_names_in_it_is_said_in_russian() -> None:
    assert (
        FINDING.message == "a change in content.film refreshes everything: film_id depends on the generated column slug"
    )
    assert FINDING.said_in(RUSSIAN)[0] == f"изменение в content.film обновляет всё: {SAID}"


def test_programs_get_its_code_and_data() -> None:
    data = json.loads(json.dumps(FINDING.as_json()))["data"]
    assert (data["reason"]["code"], data["reason"]["data"]["reason"]["data"]) == ("depends_on", {"column": "slug"})
    assert data["reason"]["message"] == NESTED


def test_what_a_run_has_said_of_it_is_in_russian_too() -> None:
    kept = json.loads(json.dumps(fields_of(FINDING)))
    assert shown(Event.FINDING, kept, RUSSIAN)[0] == FINDING.said_in(RUSSIAN)[0]
    kept = json.loads(json.dumps(as_stored({"why": NESTED, "rows": 3})))
    assert (kept["why"], kept["because"]["code"]) == (NESTED, "depends_on")
    assert shown(Event.COMPARING, kept, RUSSIAN)[1] == {"why": SAID, "rows": 3}


def test_a_reason_of_another_program_is_said_in_its_own_words() -> None:
    later = {"code": "to_come", "data": {}, "message": "something new"}
    kept = fields_of(FINDING) | {"data": {"table": "content.film", "reason": later}}
    assert shown(Event.FINDING, kept)[0] == "a change in content.film refreshes everything: something new"
    assert shown(Event.COMPARING, {"why": "something new", "because": later}, RUSSIAN)[1] == {"why": "something new"}


def test_it_can_be_handed_to_another_process() -> None:
    there = pickle.loads(pickle.dumps(NESTED))
    assert isinstance(there, Because)
    assert (there, there.code, there.data) == (NESTED, NESTED.code, NESTED.data)
