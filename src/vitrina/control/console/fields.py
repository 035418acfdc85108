"""The editor's fields, from the pipeline's model: a new field of the model is a field of the editor."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from vitrina.control.console.headings import CHOICES, GROUPS, MATTERS, OTHERS, TITLES, USUAL
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.domain.schedule import joined_zone, split_zone
from vitrina.files import dump_pipeline, dump_yaml, in_words, load_yaml

SQL_FIELDS = ("source_query",)
NEVER = ("id", "part_of")
WHOLE = "yaml"  # the form's field that holds all others, as a file has them
ZONE = "zone"  # of a cron line: a field of its own, for people


@dataclass(frozen=True)
class Field:
    """One field of the form: what it is called, what it takes, and what stands in it."""

    name: str
    kind: Literal["text", "number", "choice", "switch", "list", "sql", "yaml"]
    about: str
    value: str
    choices: tuple[str, ...]
    required: bool
    default: str = ""

    @property
    def title(self) -> str:
        """For people."""
        return TITLES.get(self.name, self.name.replace("_", " ").capitalize())

    @property
    def usual(self) -> bool:
        """Whether many need it; the others are further down."""
        return self.name in USUAL

    @property
    def when(self) -> str:
        """The field and its values that make this one matter; empty: it always does."""
        return MATTERS.get(self.name, "")

    @property
    def zoned(self) -> tuple[str, str]:
        """A schedule's zone, and the rest; together if they could not be put together again."""
        parts = split_zone(self.value)
        return parts if joined_zone(*parts) == self.value else ("", self.value)

    def said(self, choice: str) -> str:
        """A choice, for people."""
        return CHOICES.get((self.name, choice), choice)


@dataclass(frozen=True)
class Group:
    """Fields under one heading."""

    title: str
    fields: list[Field]

    @property
    def more(self) -> list[Field]:
        """Those that few need, folded away."""
        return [field for field in self.fields if not field.usual]

    @property
    def opened(self) -> bool:
        """Whether something else than the default stands in one of them."""
        return any(field.value != field.default for field in self.more)


def form_fields(values: Mapping[str, Any], lists: Mapping[str, Sequence[str]] | None = None) -> list[Field]:
    """Every field, as they are grouped; `values` as a configuration has them, `lists` what some can be chosen from."""
    first = [name for _, names in GROUPS for name in names]
    names = [*first, *(name for name in Pipeline.model_fields if name not in first)]
    fields = (_field(name, values) for name in names if name in Pipeline.model_fields and name not in NEVER)
    return [_listed(field, (lists or {}).get(field.name)) for field in fields]


def grouped(fields: Sequence[Field]) -> list[Group]:
    """Under their headings; what has none under the last."""
    known = {name: title for title, names in GROUPS for name in names}
    titles = [*(title for title, _ in GROUPS), OTHERS]
    groups = [Group(title, [f for f in fields if known.get(f.name, OTHERS) == title]) for title in titles]
    return [group for group in groups if group.fields]


def read(form: Mapping[str, list[str]]) -> tuple[dict[str, Any], list[Finding]]:
    """What a form says: a value for each field, None for an empty one; and what cannot be read at all."""
    if WHOLE in form:
        return _whole(_text_of(form, WHOLE))
    values: dict[str, Any] = {}
    wrong = []
    for field in form_fields({}):
        try:
            values[field.name] = _value(field, _text_of(form, field.name))
        except yaml.YAMLError as error:
            wrong.append(_no_yaml(field.name, error))
        except ValueError:
            wrong.append(Finding("error", field.name, Code.NOT_A_NUMBER, {"text": _text_of(form, field.name)}))
    return _completed(values, _text_of(form, ZONE)), wrong


def shown(form: Mapping[str, list[str]], lists: Mapping[str, Sequence[str]] | None = None) -> list[Field]:
    """The fields with what was typed into them, readable or not."""
    return [Field(**(vars(f) | {"value": _text_of(form, f.name)})) for f in form_fields({}, lists)]


def written(values: Mapping[str, Any]) -> str:
    """The same as a file has it."""
    return dump_pipeline({name: tidy(value) for name, value in values.items() if name not in NEVER})


def tidy(value: Any) -> Any:
    """As people write it: what is empty left out, a task's fields in their order."""
    if isinstance(value, list):
        return [tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    given = {name: tidy(item) for name, item in value.items() if item is not None}
    order = [name for name in Task.model_fields if name in given] if {"task_type", "body"} <= given.keys() else given
    return {name: given[name] for name in [*order, *(name for name in given if name not in order)]}


def _text_of(form: Mapping[str, list[str]], name: str) -> str:
    return (form.get(name) or [""])[0].replace("\r\n", "\n")


def _whole(text: str) -> tuple[dict[str, Any], list[Finding]]:
    """All fields, those that are not in the text as if they were empty."""
    try:
        given = load_yaml(text)
    except yaml.YAMLError as error:
        return {}, [_no_yaml("", error)]
    if not isinstance(given, dict):
        return {}, [Finding("error", "", Code.NOT_YAML, {"error": "a pipeline is a mapping of fields"})]
    empty = dict.fromkeys(name for name in Pipeline.model_fields if name not in NEVER)
    return empty | {str(name): value for name, value in given.items()}, []


def _no_yaml(where: str, error: yaml.YAMLError) -> Finding:
    return Finding("error", where, Code.NOT_YAML, {"error": in_words(error)})


def _completed(values: dict[str, Any], zone: str) -> dict[str, Any]:
    """What the form has in another way: the zone of a cron line, and that rows go through a transform."""
    if "tasks" in values and not values["tasks"]:
        values["type"] = "PYTHON" if values.get("python_task") else "SQL"
    if values.get("schedule_interval"):
        values["schedule_interval"] = joined_zone(zone.strip(), values["schedule_interval"])
    return values


def _field(name: str, values: Mapping[str, Any]) -> Field:
    info = Pipeline.model_fields[name]
    kind, choices = _kind(name, info.annotation)
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    text, usual = _text(kind, values.get(name, default)), _text(kind, default)
    return Field(name, kind, info.description or "", text, choices, info.is_required(), usual)


def _listed(field: Field, choices: Sequence[str] | None) -> Field:
    """Chosen from a list; what stands in it is one of them, known or not."""
    if choices is None:
        return field
    given = dict.fromkeys(([""] if not field.default else []) + list(choices) + [field.value])
    return Field(**(vars(field) | {"kind": "choice", "choices": tuple(given)}))


def _kind(name: str, annotation: Any) -> tuple[Any, tuple[str, ...]]:
    may_be_left_out = get_origin(annotation) in (Union, types.UnionType)
    if may_be_left_out:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if name in SQL_FIELDS:
        return "sql", ()
    if get_origin(annotation) is Literal:
        return "choice", (*[""] * may_be_left_out, *get_args(annotation))
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
