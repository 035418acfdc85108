"""A mart in a bucket of S3, by obstore: files are put whole, and the manifest by a PUT that its ETag fences."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from io import BytesIO
from typing import Any

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from vitrina.settings import Settings
from vitrina.sinks.files.shelf import Changed, Seen
from vitrina.sinks.parquet.patience import Patience

STATUS = re.compile(r"status code: (\d{3})")
SAID = re.compile(r"<Code>(?P<code>.*?)</Code>.*?(?:<Message>(?P<message>.*?)</Message>|$)", re.S)
WHOLE = 6  # a request may take as many times as long as it may be silent
BUSY = (408, 429)  # of the answers that say that it was our fault


class Answer(OSError):
    """What the bucket, or whoever stands before it, has answered; or that nobody has."""

    def __init__(self, text: str, *, refuses: bool) -> None:
        super().__init__(text)
        self.refuses = refuses


class Bucket:
    """Below a prefix of it."""

    def __init__(self, url: str, settings: Settings, patience: Patience) -> None:
        bucket, _, prefix = url.partition("://")[2].partition("/")
        self.store = S3Store(
            bucket,
            prefix=prefix.rstrip("/"),
            config=_config(settings),
            client_options=_client(settings, patience),
            retry_config=_retries(patience),
        )

    def look(self) -> None:
        """A prefix of it that is not there yet is made by its first file; a bucket is not."""
        with translated():
            next(iter(obstore.list(self.store, chunk_size=1)), None)

    def get(self, path: str) -> tuple[bytes, str] | None:
        """With its ETag; a bucket that is not there is an error, and no file that is not."""
        try:
            with translated():
                found = obstore.get(self.store, path)
                return bytes(found.bytes()), str(found.meta["e_tag"])
        except FileNotFoundError:
            self.look()
            return None

    def put(self, path: str, data: bytes) -> None:
        """In parts, if it is large."""
        with translated():
            obstore.put(self.store, path, data)

    def switch(self, path: str, data: bytes, tag: str | None) -> str:
        """If-Match, or If-None-Match: it is the bucket that compares."""
        try:
            with translated():
                mode: Any = "create" if tag is None else {"e_tag": tag}
                return str(obstore.put(self.store, path, data, mode=mode, use_multipart=False)["e_tag"])
        except (PreconditionError, AlreadyExistsError) as error:
            raise Changed(path) from error

    def open(self, path: str) -> BytesIO:
        """All of it: a file is small enough to be held."""
        with translated():
            return BytesIO(bytes(obstore.get(self.store, path).bytes()))

    def copy(self, path: str, to: str) -> None:
        """By the bucket itself."""
        with translated():
            obstore.copy(self.store, path, to)

    def list(self, folder: str = "") -> Iterator[Seen]:
        """Every file below it."""
        with translated():
            for some in obstore.list(self.store, prefix=folder or None):
                yield from (Seen(f["path"], f["size"], f["last_modified"].timestamp()) for f in some)

    def remove(self, paths: Sequence[str]) -> None:
        """Hundreds at a time."""
        with translated():
            obstore.delete(self.store, paths)

    def close(self) -> None:
        """What a bucket has taken is there to stay."""


def _config(settings: Settings) -> Any:
    key, secret = settings.lake_access_key, settings.lake_secret_key
    given = {
        "access_key_id": key.get_secret_value() if key else None,  # without: the environment, or the machine's role
        "secret_access_key": secret.get_secret_value() if secret else None,
        "endpoint": settings.lake_endpoint,
        "region": settings.lake_region,
    }
    return {name: value for name, value in given.items() if value}


def _client(settings: Settings, patience: Patience) -> Any:
    silent = timedelta(seconds=patience.silent_seconds)
    return {
        "allow_http": (settings.lake_endpoint or "").startswith("http://"),
        "connect_timeout": timedelta(seconds=patience.connect_seconds),
        "read_timeout": silent,
        "timeout": silent * WHOLE,
    }


def _retries(patience: Patience) -> Any:
    pause = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2}
    within = timedelta(seconds=patience.attempts * patience.silent_seconds)
    return {"max_retries": patience.attempts - 1, "retry_timeout": within, "backoff": pause}


@contextmanager
def translated() -> Iterator[None]:
    """In words that fit into a line; what was expected of a condition is left to who asked for it."""
    try:
        yield
    except (PreconditionError, AlreadyExistsError):
        raise
    except BaseError as error:
        found = STATUS.search(str(error))
        status = int(found[1]) if found else 0
        is_ours = isinstance(error, PermissionDeniedError | UnauthenticatedError)
        refuses = is_ours or (400 <= status < 500 and status not in BUSY)
        raise Answer(_in_short(str(error)), refuses=refuses) from error


def _in_short(text: str) -> str:
    told = SAID.search(text)
    first = text.split("Debug source")[0].split("<?xml")[0].strip().rstrip(":")
    return f"{first}: {told['code']}: {told['message'] or ''}".rstrip(": ") if told else first
