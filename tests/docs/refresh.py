"""docs/reference.md, written from the models: `make reference` writes it anew, a test compares."""

import re
from dataclasses import fields
from pathlib import Path
from string import Formatter
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.events import Event, Measured
from vitrina.domain.faults import FAULTS
from vitrina.domain.findings import Code, Phrase
from vitrina.domain.lifecycle import TRANSITIONS
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.domain.reasons import Reason
from vitrina.domain.refusals import REFUSALS
from vitrina.domain.run import RunOptions
from vitrina.domain.wording import Worded
from vitrina.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reference.md"
HEAD = """\
# Reference

Written from the code by `make reference`; a test holds it to it. What things are for is in
[pipelines.md](pipelines.md).
"""
SETTINGS = """\
In the environment or `.env`, in capitals, `VITRINA_` before all but `ELASTICSEARCH_URL` and `OPENSEARCH_URL`.
"""
FINDINGS = """\
## Findings

What `validate`, `plan` and the API say about a pipeline, a query or a capture. A program goes by `code` and `data`,
which stay; the message and the remedy are for people, and the console says them in its visitor's language.
"""
DIAGNOSES = """\
## Diagnoses of the doctor

What `vitrina doctor --output json` finds: `level` (`ok`, `warn` or `fail`), `about` what, and by code and data. A
capture has the codes of findings, and what was refused has `refused`.
"""
EVENTS = """\
## Events of a run

What a run says while it runs, in `etl.etl_run_events` and in `GET /api/v1/runs/{id}/events`: kept by code, with fields
beside it. `finding` carries a finding: `code`, `data`, `message` and `remedy`. Lines that older programs
wrote have the text in the place of the code. The fields below are read by programs; others are for people.
"""


def reference() -> str:
    """The page."""
    parts = [
        HEAD,
        "## Fields of a pipeline\n",
        table("field", Pipeline, {name: field.description or "" for name, field in Pipeline.model_fields.items()}),
        "## Fields of a task\n",
        table("field", Task, {}),
        "## Options of one run\n\n| option | default |\n|---|---|\n"
        + "".join(f"| `{option.name}` | `{option.default}` |\n" for option in fields(RunOptions)),
        "## Transitions\n\n| name | from | to |\n|---|---|---|\n" + "".join(moves()),
        f"## Settings\n\n{SETTINGS}",
        table("setting", Settings, meanings()),
        FINDINGS,
        "| code | data | message | remedy |\n|---|---|---|---|\n"
        + "".join(row(code, code.remedy) for code in (*Code, *REFUSALS)),
        "| `why`, `way`, `via` | data | text |\n|---|---|---|\n" + "".join(map(row, Phrase)),
        "| `reason`, `because` | data | text |\n|---|---|---|\n" + "".join(map(row, Reason)),
        "| `fault`, `where`, `problems` | data | text |\n|---|---|---|\n" + "".join(map(row, FAULTS)),
        DIAGNOSES,
        "| code | data | message | remedy |\n|---|---|---|---|\n"
        + "".join(row(diagnosis, diagnosis.remedy) for diagnosis in Diagnosis),
        EVENTS,
        "| code | text |\n|---|---|\n" + "".join(f"| `{event.value}` | {event.text} |\n" for event in Event),
        "| field | type |\n|---|---|\n"
        + "".join(f"| `{name}` | `{of.__name__}` |\n" for name, of in Measured.__annotations__.items()),
    ]
    return "\n".join(parts)


def row(worded: Worded, *more: str) -> str:
    """A code, the names of its data, and its texts."""
    names = dict.fromkeys(name for text in (worded.text, *more) for _, name, _, _ in Formatter().parse(text) if name)
    plain = [re.sub(r"\{(\w+)[!:][^}]*\}", r"{\1}", text) for text in (worded.text, *more)]
    texts = [text.replace("{{", "{").replace("}}", "}").replace("|", r"\|") for text in plain]
    return f"| `{worded.value}` | {', '.join(f'`{name}`' for name in names)} | {' | '.join(texts)} |\n"


def table(head: str, model: type[BaseModel], words: dict[str, str]) -> str:
    """Name, type, default, limits and meaning of each field."""
    rows = [f"| {head} | type | default | limits | meaning |", "|---|---|---|---|---|"]
    for name, field in model.model_fields.items():
        cells = [f"`{name}`", f"`{kind(field)}`", default(field), limits(field), words.get(name, "")]
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def kind(field: FieldInfo) -> str:
    """The type, as one would say it."""
    plain = isinstance(field.annotation, type) and "[" not in str(field.annotation)
    said = field.annotation.__name__ if plain and field.annotation else str(field.annotation)
    return re.sub(r"\b(?:typing|uuid|pathlib|pydantic\.types|vitrina\.[\w.]+)\.", "", said)


def default(field: FieldInfo) -> str:
    """What it is when left out."""
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "generated"
    value: Any = field.default
    return "" if value in (None, PydanticUndefined, (), {}, [], "") else f"`{value}`"


def limits(field: FieldInfo) -> str:
    """What pydantic checks."""
    found = [re.sub(r"^(\w+)\((.*)\)$", r"\2", str(part)) for part in field.metadata if "Validator" not in str(part)]
    return ", ".join(f"`{text}`" for text in found if "=" in text)


def meanings() -> dict[str, str]:
    """Of the settings, by the page that explains them."""
    page = (DOCS / "pipelines.md").read_text().split("## Settings\n")[1].split("\n## ")[0]
    rows = [row.split(" | ") for row in re.findall(r"^\| (`.+) \|$", page, flags=re.MULTILINE)]
    names = [(re.findall(r"`([^`]+)`", row[0]), row[-1]) for row in rows]
    return {name.lower().removesuffix("__name"): text.removeprefix("| ") for found, text in names for name in found}


def moves() -> list[str]:
    """Every named transition, and from where to where it goes."""
    pairs = [(name, move) for name, known in TRANSITIONS.items() for move in known.items()]
    return [f"| `{name}` | `{before}` | `{after}` |\n" for name, (before, after) in pairs]


if __name__ == "__main__":
    PAGE.write_text(reference())
