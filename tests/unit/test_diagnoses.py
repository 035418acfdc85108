"""What the doctor says, by code."""

from pathlib import Path

from vitrina.cli import checking
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.findings import Code

SAID = "".join(file.read_text() for file in Path(checking.__file__).parent.glob("*.py"))


def test_a_code_means_one_thing_whether_it_is_of_a_finding_or_a_diagnosis() -> None:
    assert {*map(str, Diagnosis)} & {*map(str, Code)} == set()


def test_every_diagnosis_is_made_somewhere() -> None:
    assert [diagnosis.name for diagnosis in Diagnosis if f"Diagnosis.{diagnosis.name}" not in SAID] == []
