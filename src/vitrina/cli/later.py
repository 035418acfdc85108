"""Commands that are imported when they are called: each needs something else, and all of it takes a second."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

CONTEXT = {"psql": {"ignore_unknown_options": True}}


@dataclass(frozen=True)
class Place:
    """Where a command is written: a function, or the Typer of a group of commands."""

    section: str
    name: str  # what one types
    module: str
    attribute: str

    @property
    def summary(self) -> str:
        """The first sentence of its help, read without importing it."""
        return _summaries(self.module)[self.attribute]

    def load(self) -> Any:
        """The command itself."""
        found = getattr(import_module(self.module), self.attribute)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=self.name)
            return cast(TyperGroup, typer.main.get_command(alone)).commands[self.name]
        alone.command(self.name, context_settings=CONTEXT.get(self.name))(found)
        return typer.main.get_command(alone)


class Later(TyperCommand):
    """Stands for a command in help and completion, and makes room for it when it is called."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.name, rich_markup_mode=None, rich_help_panel=place.section)
        self.place = place

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002
        """The summary, however long."""
        return self.place.summary

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """From here on it is the real command."""
        return self.place.load().make_context(*args, **kwargs)


class Sections(TyperGroup):
    """Help with the commands in sections, in the order in which they were added."""

    def format_commands(self, _: Any, formatter: Any) -> None:
        """A section for each panel; summaries in full, each a line or two."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name, command.get_short_help_str(limit=200)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


@cache
def _summaries(module: str) -> dict[str, str]:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    with open(spec.origin, encoding="utf-8") as file:
        return dict(_described(ast.parse(file.read())))


def _described(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Functions by their docstrings, and every `name = typer.Typer(help="…", …)`."""
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                yield name, _first_sentence(ast.get_docstring(node) or "")
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(keywords=[ast.keyword(arg="help", value=ast.Constant(value=str(text))), *_]),
            ):
                yield name, text


def _first_sentence(text: str) -> str:
    found = re.match(r".*?\.(?=\s|$)", text, flags=re.DOTALL)
    return " ".join((found[0] if found else text).split())
