"""Held: the first documents that a mart elsewhere serves, as they are there and not as the shadow thinks they are."""

import json
import time
from collections.abc import Generator
from contextlib import closing
from itertools import islice
from typing import Any

from vitrina.domain.errors import ConfigError
from vitrina.domain.request import PreviewParams
from vitrina.inquiries.inquiry import Inquiry
from vitrina.inquiries.preview import json_safe, preview
from vitrina.sinks.registry import open_store
from vitrina.stores import Document, Store

ID = "_id"


def show(inquiry: Inquiry, params: dict[str, Any]) -> dict[str, Any]:
    """The first rows of the query, or what the mart holds."""
    wanted = PreviewParams.parse(params)
    if not wanted.mart:
        return preview(inquiry, params)
    if wanted.pipeline is not None:
        raise ConfigError("what is not saved has no mart to look into", "leave mart out, or save it first")
    return held(inquiry, wanted.limit)


def held(inquiry: Inquiry, limit: int) -> dict[str, Any]:
    """In the form of a preview: rows, each with the id, and the fields that the first of them have."""
    started = time.monotonic()
    store = open_store(inquiry.job(), inquiry.settings, inquiry.conn)
    if store is None:
        raise ConfigError(f"{inquiry.plan.target} is a table", "read it where it is")
    with closing(store):
        documents = _first(store, inquiry.plan.target, limit + 1)
    rows = [{ID: document.id} | _fields(document) for document in documents[:limit]]
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        "columns": [{"name": name, "type": ""} for name in names],
        "rows": [{name: row.get(name) for name in names} for row in rows],
        "more": len(documents) > limit,
        "seconds": round(time.monotonic() - started, 3),
    }


def _first(store: Store, target: str, limit: int) -> list[Document]:
    served = [*store.served()]
    if not served:
        raise ConfigError(f"{target} does not exist yet", "run the pipeline first")
    with closing(_documents(store, served)) as documents:
        return list(islice(documents, limit))


def _documents(store: Store, served: list[str]) -> Generator[Document]:
    for name in served:
        yield from store.read(name)


def _fields(document: Document) -> dict[str, Any]:
    """Numbers as they are written: 1.50 is not 1.5."""
    found = json.loads(document.text or "{}", parse_float=str)
    return {name: json_safe(value) for name, value in found.items()}
