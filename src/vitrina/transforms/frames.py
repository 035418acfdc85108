"""What a runner and its worker processes say to each other: pickled frames, each after its length, over a socket."""

import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from socket import socket
from typing import Any, Literal, Protocol

from vitrina.sql.describe import Column

LENGTH = struct.Struct("!Q")
PIECE = 1 << 20


@dataclass(frozen=True)
class Batch:
    """Rows as tuples of Python's values; or, if their types are told, of the text that Postgres sent.

    Text is what travels: to pickle a UUID takes longer than to read it again.
    """

    names: Sequence[str]
    rows: list[tuple[Any, ...]]
    types: Sequence[int] | None = None


@dataclass(frozen=True)
class Order:
    """A batch, what to put it through, and what to give back: rows, or the text that COPY takes."""

    give: Literal["rows", "text"]
    steps: Sequence[str]
    columns: Sequence[Column]  # of the query
    key: Sequence[str]
    batch: "Batch"


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
    """A ConfigError."""

    message: str
    remedy: str


class Incoming(Protocol):
    """Whatever gives up to so many bytes; none at the end."""

    def __call__(self, most: int, /) -> bytes: ...


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
