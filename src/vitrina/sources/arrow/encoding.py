"""Batches of Arrow as blocks of a binary COPY: Python sees columns, never a row."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pgpq import ArrowToPostgresBinaryEncoder as Encoder
from pgpq.encoders import LargeStringEncoderBuilder, StringEncoderBuilder
from pgpq.schema import Jsonb

from vitrina.domain.errors import ConfigError
from vitrina.sources.arrow.forms import fitted
from vitrina.sql.describe import Column


def blocks(batches: Iterable[Any], columns: Sequence[Column]) -> Iterator[bytes]:
    """In the types of these columns. Batches may differ in the forms of a column: each has the encoder for its own."""
    encoders: dict[Any, Encoder] = {}
    last = _encoder(pa.schema([]), columns[:0])
    yield last.write_header()
    for batch in batches:
        formed = _formed(batch, columns)
        if formed.schema not in encoders:
            encoders[formed.schema] = _encoder(formed.schema, columns)
            encoders[formed.schema].write_header()  # there is one already
        last = encoders[formed.schema]
        yield _written(last, formed)
    yield last.finish()


def _formed(batch: Any, columns: Sequence[Column]) -> Any:
    arrays = [fitted(column, batch.column(n)) for n, column in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, [f"c{n}" for n in range(len(columns))])


def _encoder(schema: Any, columns: Sequence[Column]) -> Encoder:
    return Encoder.new_with_encoders(schema, {f.name: _builder(f, c) for f, c in zip(schema, columns, strict=True)})


def _builder(field: Any, column: Column) -> Any:
    if column.type == "jsonb":
        kind = LargeStringEncoderBuilder if pa.types.is_large_string(field.type) else StringEncoderBuilder
        return kind.new_with_output(field, Jsonb())
    return Encoder.infer_encoder(field)


def _written(encoder: Encoder, batch: Any) -> bytes:
    try:
        return encoder.write_batch(batch)
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"a value cannot be written as Postgres has it: {error}", "convert it in the query"
        ) from error
