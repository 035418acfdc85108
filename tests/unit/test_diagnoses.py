"""What the doctor and refusals say, by code."""

from pathlib import Path

from vitrina.cli import checking
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.findings import Code
from vitrina.domain.refusals import REFUSALS

SAID = "".join(file.read_text() for file in Path(checking.__file__).parent.glob("*.py"))


def test_a_code_means_one_thing_whether_it_is_of_a_finding_a_refusal_or_a_diagnosis() -> None:
    codes = [*map(str, Diagnosis), *map(str, Code), *map(str, REFUSALS)]
    assert [code for code in codes if codes.count(code) > 1] == []


def test_every_diagnosis_is_made_somewhere() -> None:
    assert [diagnosis.name for diagnosis in Diagnosis if f"Diagnosis.{diagnosis.name}" not in SAID] == []
