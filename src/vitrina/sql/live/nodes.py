"""The server's node tree as Python objects: `{VAR :varno 1 …}` becomes a Node with its fields."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal

# A token: brackets, a list's quoted string, or a word in which blanks and brackets are escaped.
TOKEN = re.compile(r'[(){}]|"(?:\\[\s\S]|[^"\\])*"|(?:\\[\s\S]|[^\s(){}"\\])+')
ESCAPED = re.compile(r"\\([\s\S])")
TYPED_LISTS = {"i", "o", "x", "b"}  # integers, oids, transaction ids, bitmaps


@dataclass(frozen=True, eq=False)
class Node:
    """One node: its kind and its fields, as words, numbers' words, nodes, lists or None."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.fields.get(name)

    def number(self, name: str) -> int:
        """A numeric field; 0 where it is missing."""
        return int(self.fields.get(name) or 0)

    def flag(self, name: str) -> bool:
        """A boolean field."""
        return self.fields.get(name) == "true"

    def items(self, name: str) -> list[Any]:
        """A list field; an absent one is empty."""
        return self.fields.get(name) or []

    def children(self) -> Iterator["Node"]:
        """The nodes directly below."""
        for value in self.fields.values():
            yield from nodes_in(value)


def nodes_in(value: Any) -> Iterator[Node]:
    """The nodes of a field's value, lists looked into."""
    if isinstance(value, Node):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from nodes_in(item)


def walk(node: Node) -> Iterator[Node]:
    """A node and everything below it."""
    yield node
    for child in node.children():
        yield from walk(child)


def parse_tree(text: str) -> Node:
    """The one query of a tree's text."""
    try:
        value = _Parser(TOKEN.findall(text)).value()
        (query,) = value if isinstance(value, list) else [value]
    except (IndexError, ValueError, RecursionError) as error:
        raise ConfigError.of(Refusal.READING_NOT_UNDERSTOOD_LIVE) from error
    if not isinstance(query, Node) or query.kind != "QUERY":
        raise ConfigError.of(Refusal.READING_NOT_UNDERSTOOD_LIVE)
    return query


@dataclass
class _Parser:
    tokens: list[str]
    at: int = 0

    def value(self) -> Any:
        token = self._next()
        if token == "{":
            return self._node()
        if token == "(":
            return self._list()
        return None if token == "<>" else _word(token)

    def _node(self) -> Node:
        kind, fields = self._next(), dict[str, Any]()
        while (token := self._next()) != "}":
            name = token.removeprefix(":")
            fields[name] = self._value_of_field()
        return Node(kind, fields)

    def _value_of_field(self) -> Any:
        """What follows a field's name: a value, or several words (a datum: its length and its bytes)."""
        value = self.value()
        if self.tokens[self.at] == "[":
            end = self.tokens.index("]", self.at)
            value, self.at = [int(byte) % 256 for byte in self.tokens[self.at + 1 : end]], end + 1
        return value

    def _list(self) -> list[Any]:
        found: list[Any] = []
        if self.tokens[self.at] in TYPED_LISTS:
            self.at += 1
        while self.tokens[self.at] != ")":
            found.append(self.value())
        self.at += 1
        return found

    def _next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]


def _word(token: str) -> str:
    bare = token[1:-1] if token.startswith('"') else token
    # The server breaks long lines at blanks, escaped ones of a name too.
    return ESCAPED.sub(lambda match: " " if match[1] == "\n" else match[1], bare)
