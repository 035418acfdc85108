"""Decoding pgoutput, protocol version 1: bytes in, transactions and row images out. No I/O.

An image is a JSON object of the wanted columns' text form, NULL as null; json and jsonb columns are embedded as JSON.
An unchanged TOAST value is not in the WAL: it comes from the old image if that is whole, else the column is left out.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import compress
from json.encoder import encode_basestring
from typing import Literal, NamedTuple, TypeAlias

from vitrina.capture.changes import Columns
from vitrina.domain.errors import FatalError

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
JSON_OIDS = frozenset({114, 3802})
# What type json takes and jsonb does not: NUL, halves of surrogate pairs, numbers beyond numeric.
UNFIT_FOR_JSONB = re.compile(r"\\u(?:0000|[dD][89a-fA-F])|[eE][+-]?\d{4}")
KEY = 1
ROWS = frozenset(b"IUD")  # what most messages begin with
INSERT, UPDATE, NEW_ROW, KEY_ONLY = b"IUNK"
TEXT, NULL = b"tn"  # a value; `u` is an unchanged TOAST value, which is left out

_begin = struct.Struct(">QqI").unpack_from
_commit = struct.Struct(">BQQq").unpack_from
_int16 = struct.Struct(">H").unpack_from
_int32 = struct.Struct(">I").unpack_from
_truncate = struct.Struct(">IB").unpack_from


@dataclass(frozen=True)
class Relation:
    """A table as the stream describes it."""

    name: str
    identity: str
    columns: tuple[tuple[str, bool, int, int], ...]  # name, in the key, type, typmod
    fields: tuple[tuple[str | None, bool], ...]  # what each begins with in an image, if wanted; embedded as JSON
    used: tuple[tuple[str | None, bool], ...]  # up to the last that is wanted: what comes after is not even looked at
    keys: tuple[bool, ...]  # which of the wanted the replica identity has

    def describes_the_same(self, other: "Relation") -> bool:
        """Whether rows of both look alike."""
        return (self.name, self.identity, self.columns) == (other.name, other.identity, other.columns)


class Begin(NamedTuple):
    """A transaction starts; its commit's position is known already."""

    lsn: int
    committed_at: datetime
    xid: int


class Commit(NamedTuple):
    """It ends; everything before `end_lsn` has been sent."""

    end_lsn: int


class Row(NamedTuple):
    """A change within the transaction."""

    relation: str
    op: Literal["I", "U", "D", "T", "R"]
    old: str | None = None
    new: str | None = None


Event: TypeAlias = Begin | Commit | list[Row]
Pieces: TypeAlias = list[str | None]


class Decoder:
    """Knows the relations of one stream."""

    def __init__(self, json_types: frozenset[int] = JSON_OIDS, wanted: Columns | None = None) -> None:
        self.json_types = json_types
        self.wanted = wanted
        self.relations: dict[int, Relation] = {}

    def want(self, columns: Columns | None) -> None:
        """From now on, images have only these columns of each relation; None: all."""
        self.wanted = columns
        self.relations = {oid: self._described(r.name, r.identity, r.columns) for oid, r in self.relations.items()}

    def decode(self, data: bytes) -> Event:
        """What a message says; an empty list if nothing that matters."""
        if data[0] in ROWS:
            return [self.row(data)]
        kind = data[:1]
        if kind == b"B":
            lsn, micros, xid = _begin(data, 1)
            return Begin(lsn, EPOCH + timedelta(microseconds=micros), xid)
        if kind == b"C":
            return Commit(_commit(data, 1)[2])
        if kind == b"R":
            return self._relation(data)
        if kind == b"T":
            count, _ = _truncate(data, 1)
            return [Row(self._known(_int32(data, 6 + 4 * n)[0]).name, "T") for n in range(count)]
        if kind in b"OYM":  # origin, type, message: nothing for us
            return []
        raise FatalError(f"the replication stream has a message {kind!r} that this version does not know")

    def _relation(self, data: bytes) -> list[Row]:
        (oid,) = _int32(data, 1)
        schema, at = _string(data, 5)
        name, at = _string(data, at)
        identity, (count,) = chr(data[at]), _int16(data, at + 1)
        at += 3
        columns = []
        for _ in range(count):
            column, end = _string(data, at + 1)
            columns.append((column, bool(data[at] & KEY), _int32(data, end)[0], _int32(data, end + 4)[0]))
            at = end + 8
        relation = self._described(f"{schema or 'pg_catalog'}.{name}", identity, tuple(columns))
        before = self.relations.get(oid)
        self.relations[oid] = relation
        changed = before is not None and not before.describes_the_same(relation)
        return [Row(before.name, "R")] if before is not None and changed else []

    def _described(self, name: str, identity: str, columns: tuple[tuple[str, bool, int, int], ...]) -> Relation:
        wanted = {c[0] for c in columns} if self.wanted is None else set(self.wanted.get(name, ()))
        fields = tuple(
            (encode_basestring(c[0]) + ": " if c[0] in wanted else None, c[2] in self.json_types) for c in columns
        )
        used = max((number for number, (prefix, _) in enumerate(fields, 1) if prefix), default=0)
        keys = tuple(c[1] for c in columns if c[0] in wanted)
        return Relation(name, identity, columns, fields, fields[:used], keys)

    def row(self, data: bytes) -> Row:
        """What a message that begins like one of `ROWS` says."""
        relation = self._known(_int32(data, 1)[0])
        op, part = data[0], data[5]
        if part == NEW_ROW:
            new = _joined(_pieces(relation.used, data, 6)[0])
            return Row(relation.name, "I" if op == INSERT else "U", None, new)
        old, at = _pieces(relation.fields, data, 6)
        before = _joined(compress(old, relation.keys) if part == KEY_ONLY else old)
        if op != UPDATE:
            return Row(relation.name, "D", before)
        now, _ = _pieces(relation.used, data, at + 1)  # the N before the new tuple
        if part != KEY_ONLY:
            now = [was if piece is None else piece for was, piece in zip(old, now, strict=True)]
        return Row(relation.name, "U", before, _joined(now))

    def _known(self, oid: int) -> Relation:
        try:
            return self.relations[oid]
        except KeyError:
            raise FatalError(f"the replication stream has a row of relation {oid} before its description") from None


def _pieces(fields: Sequence[tuple[str | None, bool]], data: bytes, at: int) -> tuple[Pieces, int]:
    """The wanted columns of a tuple, as they stand in an image, None where a value was left out; and where they end."""
    pieces: Pieces = []
    at += 2
    for prefix, embedded in fields:
        kind = data[at]
        at += 1
        if kind == TEXT:
            start = at + 4
            at = start + _int32(data, at)[0]
            if prefix is not None:
                text = data[start:at].decode()
                fits = embedded and not UNFIT_FOR_JSONB.search(text)
                pieces.append(prefix + (text if fits else encode_basestring(text)))
        elif prefix is not None:
            pieces.append(prefix + "null" if kind == NULL else None)
    return pieces, at


def _joined(pieces: Iterable[str | None]) -> str:
    """An image."""
    return "{" + ", ".join([piece for piece in pieces if piece is not None]) + "}"


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1
