"""Preview: the first rows of the query, and what each transform makes of them. Never writes."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from datetime import time as clock
from decimal import Decimal
from itertools import islice
from typing import Any

import psycopg
from psycopg import sql

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.pipeline import Plan
from vitrina.domain.request import PreviewParams
from vitrina.engine.query import QueryText
from vitrina.inquiries.inquiry import Inquiry
from vitrina.planning import resolve_key
from vitrina.settings import Settings
from vitrina.sources.source import Source
from vitrina.sql.describe import Column
from vitrina.transforms import Row
from vitrina.transforms.chain import resolve_transformer
from vitrina.transforms.rows import load_rows
from vitrina.transforms.running import Transforming

TIMEOUT_SECONDS = 5.0
SHOWN_LENGTH = 2_000  # characters of a value


def preview(inquiry: Inquiry, params: dict[str, Any]) -> dict[str, Any]:
    """What a run would read first, and what each transform makes of it."""
    key = resolve_key(inquiry.conn, inquiry.plan) if inquiry.plan.transforms else ()
    shown = Preview(inquiry.reader, inquiry.plan, inquiry.settings, inquiry.check)
    return shown.of(PreviewParams.parse(params).limit, key)


@dataclass(frozen=True)
class Preview:
    """Of one plan."""

    reader: Source
    plan: Plan
    settings: Settings
    check: Callable[[], None] = lambda: None

    def of(self, limit: int, key: Sequence[str] = ()) -> dict[str, Any]:
        """The first rows after each step; `columns` and `rows` are those of the last."""
        started = time.monotonic()
        columns: Sequence[Column] = self.reader.describe(self.plan.select)
        rows = self._first_rows(columns, limit + 1)
        more, rows = len(rows) > limit, rows[:limit]
        steps = [_step("SQL", "query", columns, rows)]
        for name in self.plan.transforms:
            transformer = resolve_transformer([name], columns, key)
            rows = Transforming(transformer, self.settings, self.check).apply(rows)
            columns = transformer.columns
            steps.append(_step("PYTHON", name, columns, rows))
        return {
            "columns": steps[-1]["columns"],
            "rows": steps[-1]["rows"],
            "more": more,
            "steps": steps,
            "seconds": round(time.monotonic() - started, 3),
        }

    def _first_rows(self, columns: Sequence[Column], limit: int) -> list[Row]:
        reader = self.reader.within(TIMEOUT_SECONDS)
        if not reader.abilities.speaks_sql:
            batches = reader.first_rows(self.plan.select, limit)
            return list(islice((row for batch in batches for row in load_rows(batch)), limit))
        query = QueryText(self.plan.select, tuple(columns), ())
        try:
            try:
                return reader.fetch(_limited(query.whole(), limit))
            except ConfigError as error:
                if self.plan.transforms or not _has_no_python_form(error):
                    raise
                return reader.fetch(_limited(_as_text(query), limit))
        except RetryableError as error:
            if not isinstance(error.__cause__, psycopg.errors.QueryCanceled):
                raise
            self.check()
            raise ConfigError(
                f"the query did not give its first rows within {TIMEOUT_SECONDS:.0f} s",
                "a run has more time; for a preview, filter it or index what it joins and sorts by",
            ) from error


def _limited(query: sql.Composable, limit: int) -> sql.Composed:
    return sql.SQL("{} LIMIT {}").format(query, sql.Literal(limit))


def _as_text(query: QueryText) -> sql.Composed:
    return query.whole([Column(c.name, "text") for c in query.columns])


def _has_no_python_form(error: ConfigError) -> bool:
    return isinstance(error.__cause__, psycopg.DataError) and error.__cause__.sqlstate is None


def _step(kind: str, name: str, columns: Sequence[Column], rows: list[Row]) -> dict[str, Any]:
    return {
        "type": kind,
        "name": name,
        "columns": [{"name": c.name, "type": c.type} for c in columns],
        "rows": [{c.name: json_safe(row[c.name]) for c in columns} for row in rows],
    }


def json_safe(value: Any) -> Any:
    """A value as JSON can hold it: a number that would be rounded is text, and what is long is cut and marked."""
    plain = _plain(value)
    if isinstance(plain, list | dict):
        text = json.dumps(plain, ensure_ascii=False)
        return plain if len(text) <= SHOWN_LENGTH else _cut(text)
    return _cut(plain) if isinstance(plain, str) else plain


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime | date | clock):
        return value.isoformat()
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value).replace("\0", "\\0").encode(errors="backslashreplace").decode()


def _number(value: Decimal) -> float | str:
    return float(value) if value.is_finite() and Decimal(repr(float(value))) == value else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else f"{text[:SHOWN_LENGTH]}… ({len(text)} characters)"
