"""Pipelines as YAML files: read strictly, written so that they read well and round-trip."""

import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel

from vitrina.domain.errors import ConfigError
from vitrina.domain.fields import shortened
from vitrina.domain.pipeline import Pipeline, Task
from vitrina.domain.refusals import Refusal

SUFFIXES = (".yaml", ".yml")
MAX_DEPTH, MAX_NODES = 50, 100_000
KINDS = {
    f"tag:yaml.org,2002:{tag}": kind
    for tag, kind in (("int", "whole number"), ("float", "number"), ("timestamp", "date"))
}
PHRASES = (  # of the parser, and what they mean
    ("mapping values are not allowed here", "a colon is not expected here; a text with one goes in quotes"),
    (r"found character '\\t' that cannot start any token", "a tab, where only spaces indent"),
    ("could not determine a constructor for the tag '(?:tag:yaml.org,2002:|!)(.*)'", r"the tag \1 is not taken"),
    (r"but got '<stream end>'", "but the text ends"),
    (r"but found '<(\w+) (\w+)>'", r"but found a \1 \2"),
    (r"'<(\w+) (\w+)>'", r"a \1 \2"),
)


@dataclass(frozen=True)
class Document:
    """One pipeline as a file has it; it may be wrong."""

    file: Path
    values: dict[str, Any]

    @property
    def name(self) -> str:
        """For people."""
        return str(self.values.get("name") or self.file.name)

    def parse(self) -> Pipeline:
        """The pipeline, or a ConfigError that names the file."""
        try:
            return Pipeline.parse(self.values)
        except ConfigError as error:
            raise ConfigError.of(
                Refusal.OF_FILE, file=str(self.file), reason=error.because, way=error.therefore
            ) from error


def files_of(path: Path) -> list[Path]:
    """A file itself, or the YAML files in a folder (not in folders below it), by name."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)


def read_documents(path: Path) -> list[Document]:
    """Every pipeline of a file or a folder."""
    return [document for file in files_of(path) for document in _documents(file)]


def read_pipelines(path: Path) -> list[Pipeline]:
    """The same, parsed."""
    return [document.parse() for document in read_documents(path)]


def demo_pipelines(folder: str = "pipelines") -> list[Pipeline]:
    """The demo's own: to tables, or those in `indexes` to indexes of Elasticsearch."""
    return read_pipelines(Path(str(files("vitrina") / "demo" / folder)))


def dump_pipeline(config: dict[str, Any]) -> str:
    """A configuration as YAML: defaults left out, queries as blocks of text."""
    kept = _without_defaults(config, Pipeline)
    kept["tasks"] = [_without_defaults(task, Task) for task in config.get("tasks") or ()]
    return dump_yaml({name: value for name, value in kept.items() if value != []})


def dump_yaml(value: Any) -> str:
    """YAML that people like to read; what would not come back the same is written the way that does."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=1000
    )
    return text if yaml.safe_load(text) == value else yaml.safe_dump(value, sort_keys=False)


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema of such a file, for editors."""
    schema = Pipeline.model_json_schema()
    schema["properties"]["task_name"] = schema["properties"]["python_task"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema | {"title": "Vitrina pipeline"}


def load_yaml(text: str) -> Any:
    """One document, read as strictly as a file is; a YAMLError says what is wrong with it."""
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def in_words(error: yaml.YAMLError) -> str:
    """What is wrong with a text that is no YAML, and where."""
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem:
        return " ".join(str(error).split())
    said = error.problem
    for theirs, ours in PHRASES:
        said = re.sub(theirs, ours, said)
    mark = error.problem_mark
    return f"{said}, line {mark.line + 1}, column {mark.column + 1}" if mark else said


class _Loader(yaml.SafeLoader):
    """A field that is given twice is an error, not a surprise; so is what is nested or repeated without end."""

    depth = nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One node and what it holds. An alias counts as much as what it stands for: ten of them could be a billion."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        before, self.depth, self.nodes = self.nodes, self.depth + 1, self.nodes + 1
        self._refuse(self.depth > MAX_DEPTH, f"nested deeper than {MAX_DEPTH}", event)
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            self._refuse(id(node) not in self._sizes, "an alias of what it is in", event)
            self.nodes += self._sizes[id(node)]
        else:
            self._sizes[id(node)] = self.nodes - before
        self._refuse(self.nodes > MAX_NODES, f"more than {MAX_NODES:,} values", event)
        self.depth -= 1
        return node

    @cached_property
    def _sizes(self) -> dict[int, int]:
        return {}

    def _refuse(self, is_wrong: bool, why: str, event: yaml.Event) -> None:
        if is_wrong:
            raise yaml.composer.ComposerError(None, None, why, cast("yaml.error.Mark | None", event.start_mark))

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """A date that no calendar has is an error of the file."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            why = f"{shortened(str(node.value))} is no {KINDS.get(node.tag, 'value')}"
            raise yaml.constructor.ConstructorError(None, None, why, node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a name is no text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """A pipeline is a block; texts of several lines become literal blocks, tabs and trailing spaces included."""

    def represent(self, data: Any) -> None:
        node = self.represent_data(data)
        if isinstance(node, yaml.MappingNode):
            node.flow_style = False
        self.serialize(node)

    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if "\n" in scalar and all(line.replace("\t", " ").isprintable() for line in scalar.split("\n")):
            analysis.allow_block = True
        return analysis


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _without_defaults(values: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    defaults = {name: _plain(field.default) for name, field in model.model_fields.items() if not field.is_required()}
    ordered = {name: values[name] for name in model.model_fields if name in values}
    unknown = {name: value for name, value in values.items() if name not in ordered}
    given = ordered | unknown
    return {k: v for k, v in given.items() if v is not None and (k not in defaults or v != defaults[k])}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _documents(file: Path) -> list[Document]:
    try:
        with file.open(encoding="utf-8") as stream:
            loaded = [document for document in yaml.load_all(stream, _Loader) if document is not None]
    except FileNotFoundError as error:
        raise ConfigError.of(Refusal.NO_FILE, file=str(file)) from error
    except yaml.YAMLError as error:
        raise ConfigError.of(Refusal.FILE_NO_YAML, file=str(file), error=in_words(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError.of(Refusal.FILE_NO_TEXT, file=str(file)) from error
    except OSError as error:
        raise ConfigError.of(Refusal.FILE_UNREADABLE, file=str(file), error=error.strerror or str(error)) from error
    if not all(isinstance(values, dict) for values in loaded):
        raise ConfigError.of(Refusal.NO_MAPPING, file=str(file))
    return [Document(file, values) for values in loaded]
