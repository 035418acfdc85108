"""The bucket of a lake, as pyarrow and pyiceberg see it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from vitrina.sinks.lake.place import Place


class Bucket:
    """One file system, which pyiceberg has too: whoever reads or writes does so with the same deadlines."""

    def __init__(self, place: "Place") -> None:
        self.url = place.url
        self.system = _system(place)
        self.io = PyArrowFileIO()
        _use(self.io, self.url, self.system)

    def look(self) -> None:
        """A folder of it that is not there yet is made by its first file; a bucket is not."""
        try:
            self.system.get_file_info(fs.FileSelector(_path(self.url)))
        except FileNotFoundError:
            return

    def doubt(self, folder: str) -> str:
        """None, once the bucket has answered."""
        del folder
        self.look()
        return ""

    def list(self, folder: str) -> Iterator[tuple[str, float]]:
        """Every file below it, and when it was written."""
        path = _path(folder)
        for info in self.system.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True)):
            if info.type == fs.FileType.File:
                yield folder + info.path.removeprefix(path), info.mtime.timestamp()

    def remove(self, folder: str) -> None:
        """All of it."""
        path = _path(folder)
        if self.system.get_file_info(path).type == fs.FileType.Directory:
            self.system.delete_dir(path)

    def flush(self) -> None:
        """What a bucket has taken is there to stay."""


def _path(url: str) -> str:
    """As a file system of pyarrow calls it."""
    return url.partition("://")[2]


def _system(place: "Place") -> fs.FileSystem:
    settings, patience = place.settings, place.patience
    key, secret = settings.lake_access_key, settings.lake_secret_key
    return fs.S3FileSystem(
        access_key=key.get_secret_value() if key else None,  # without: the environment, or the machine's role
        secret_key=secret.get_secret_value() if secret else None,
        endpoint_override=settings.lake_endpoint,
        region=settings.lake_region,
        connect_timeout=patience.connect_seconds,
        request_timeout=patience.silent_seconds,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=patience.attempts),
        allow_delayed_open=True,  # a small file is one request
    )


def _use(io: PyArrowFileIO, url: str, system: fs.FileSystem) -> None:
    """For what is where the lake is; a table that somebody keeps elsewhere is read as pyiceberg reads it."""
    own, others = url.partition("://")[0], io.fs_by_scheme
    io.fs_by_scheme = lambda scheme, netloc: system if scheme == own else others(scheme, netloc)
