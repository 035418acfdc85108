"""What a runner and its worker processes say to each other: pickled frames, each after its length, over a socket."""

import pickle
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from socket import socket
from typing import Any, Literal, Protocol

from vitrina.sql.describe import Column

LENGTH = struct.Struct("!Q")
PIECE = 1 << 20
NULL = rb"\N"
ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"})
RESTORED = re.compile(rb"\\(.)", re.DOTALL)  # what COPY writes; every other letter stands for itself
LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


@dataclass(frozen=True)
class Batch:
    """Rows as COPY writes them in text, a line each: they pass through a runner without being looked at."""

    names: Sequence[str]
    types: Sequence[int]  # by oid
    text: bytes
    size: int  # in rows

    @classmethod
    def of(cls, names: Sequence[str], types: Sequence[int], rows: Iterable[Sequence[str | None]]) -> "Batch":
        """Rows of text, None being NULL."""
        return cls.joined(names, types, [b"\t".join(map(_field, row)) + b"\n" for row in rows])

    @classmethod
    def joined(
        cls, names: Sequence[str], types: Sequence[int], lines: Sequence[bytes | bytearray | memoryview]
    ) -> "Batch":
        """Of the lines as they came."""
        return cls(names, types, b"".join(lines), len(lines))

    def values(self) -> list[Sequence[bytes | None]]:
        """Of each row, in the order of the names; None is NULL."""
        lines = self.text[:-1].split(b"\n") if self.size else []
        return [_fields(line) if b"\\" in line else line.split(b"\t") for line in lines]


@dataclass(frozen=True)
class Values:
    """Rows as tuples of Python's values."""

    names: Sequence[str]
    rows: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Order:
    """A batch, what to put it through, and what to give back: rows, or the text that COPY takes."""

    give: Literal["rows", "text"]
    steps: Sequence[str]
    columns: Sequence[Column]  # of the query
    key: Sequence[str]
    batch: Batch | Values


@dataclass(frozen=True)
class Ready:
    """A worker has loaded its modules, and knows these transforms."""

    transforms: frozenset[str]


@dataclass(frozen=True)
class Done:
    """How many rows are left, and what was asked for."""

    kept: int
    result: Any


@dataclass(frozen=True)
class Refused:
    """A ConfigError, and how it came about in somebody's code: for the log."""

    message: str
    remedy: str
    trace: str = ""


class Incoming(Protocol):
    """Whatever gives up to so many bytes; none at the end."""

    def __call__(self, most: int, /) -> bytes: ...


def _fields(line: bytes) -> Sequence[bytes | None]:
    found = line.split(b"\t")
    if line.count(b"\\") == found.count(NULL):
        return [None if value == NULL else value for value in found]
    return [None if value == NULL else RESTORED.sub(_restored, value) for value in found]


def _field(value: str | None) -> bytes:
    return NULL if value is None else value.translate(ESCAPED).encode()


def _restored(found: re.Match[bytes]) -> bytes:
    return LETTERS.get(found[1], found[1])


def packed(value: object) -> bytes:
    """A frame."""
    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def unpack(receive: Incoming) -> Any:
    """The next frame; an EOFError if the other side has gone."""
    (size,) = LENGTH.unpack(_exactly(receive, LENGTH.size))
    return pickle.loads(_exactly(receive, size))  # from a process of our own


def send(channel: socket, value: object) -> None:
    """All of it."""
    channel.sendall(packed(value))


def _exactly(receive: Incoming, size: int) -> bytearray:
    got = bytearray()
    while len(got) < size:
        piece = receive(min(PIECE, size - len(got)))
        if not piece:
            raise EOFError
        got += piece
    return got
