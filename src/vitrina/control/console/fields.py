"""The editor's fields, from the pipeline's model: a new field of the model is a field of the editor."""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.files import dump_yaml, load_yaml

SQL_FIELDS = ("source_query",)
FIRST = (
    "name",
    "description",
    "source_query",
    "target_table",
    "key",
    "mode",
    "incremental_key",
    "incremental_id_key",
    "schedule_interval",
)
NEVER = ("id",)


@dataclass(frozen=True)
class Field:
    """One field of the form: what it is called, what it takes, and what stands in it."""

    name: str
    kind: Literal["text", "number", "choice", "switch", "list", "sql", "yaml"]
    about: str
    value: str
    choices: tuple[str, ...]
    required: bool

    @property
    def first(self) -> bool:
        """Whether everybody needs it; the others are further down."""
        return self.name in FIRST


def form_fields(values: Mapping[str, Any]) -> list[Field]:
    """Every field, the usual ones first; `values` as a configuration has them."""
    names = [*FIRST, *(name for name in Pipeline.model_fields if name not in FIRST)]
    return [_field(name, values) for name in names if name in Pipeline.model_fields and name not in NEVER]


def read(form: Mapping[str, list[str]]) -> tuple[dict[str, Any], list[Finding]]:
    """What a form says: a value for each field, None for an empty one; and what cannot be read at all."""
    values: dict[str, Any] = {}
    wrong = []
    for field in form_fields({}):
        text = (form.get(field.name) or [""])[0].replace("\r\n", "\n")
        try:
            values[field.name] = _value(field, text)
        except yaml.YAMLError as error:
            wrong.append(Finding("error", field.name, Code.NOT_YAML, {"error": " ".join(str(error).split())}))
        except ValueError:
            wrong.append(Finding("error", field.name, Code.NOT_A_NUMBER, {"text": text}))
    return values, wrong


def shown(form: Mapping[str, list[str]]) -> list[Field]:
    """The fields with what was typed into them, readable or not."""
    typed = {name: values[0] for name, values in form.items() if values}
    return [Field(**(vars(f) | {"value": typed.get(f.name, "")})) for f in form_fields({})]


def tidy(value: Any) -> Any:
    """As people write it: what is empty left out, a task's fields in their order."""
    if isinstance(value, list):
        return [tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    given = {name: tidy(item) for name, item in value.items() if item is not None}
    order = [name for name in Task.model_fields if name in given] if {"task_type", "body"} <= given.keys() else given
    return {name: given[name] for name in [*order, *(name for name in given if name not in order)]}


def _field(name: str, values: Mapping[str, Any]) -> Field:
    info = Pipeline.model_fields[name]
    kind, choices = _kind(name, info.annotation)
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    value = values.get(name, default)
    return Field(name, kind, info.description or "", _text(kind, value), choices, info.is_required())


def _kind(name: str, annotation: Any) -> tuple[Any, tuple[str, ...]]:
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if name in SQL_FIELDS:
        return "sql", ()
    if get_origin(annotation) is Literal:
        return "choice", tuple(get_args(annotation))
    simple = {bool: "switch", int: "number", str: "text", tuple[str, ...]: "list", list[str]: "list"}
    return simple.get(annotation, "yaml"), ()


def _text(kind: str, value: Any) -> str:
    if value is None or value in ((), [], {}):
        return ""
    if kind == "switch":
        return "true" if value else ""
    if kind == "list":
        return ", ".join(value)
    if kind == "yaml":
        return dump_yaml(tidy(value))
    return str(value)


def _value(field: Field, text: str) -> Any:
    if field.kind == "switch":
        return bool(text)
    if not text.strip():
        return None
    if field.kind == "number":
        return int(text)
    if field.kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    if field.kind == "yaml":
        return load_yaml(text)
    return text if field.kind == "sql" else text.strip()
