"""The files of a lake, in a folder or in a bucket, as pyarrow and pyiceberg see them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pyarrow import fs
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from vitrina.sinks.lake.place import Place


@dataclass(frozen=True)
class Files:
    """One file system, which pyiceberg has too: whoever reads or writes does so with the same deadlines."""

    url: str
    system: fs.FileSystem = field(repr=False)
    io: FileIO = field(repr=False)

    @classmethod
    def at(cls, place: Place) -> "Files":
        """Of a lake."""
        io = PyArrowFileIO()
        if place.is_bucket:
            _use(io, place.url, _bucket(place))
        return cls(place.url, io.fs_by_scheme(place.url.partition("://")[0], ""), io)

    def look(self) -> None:
        """Once the place has answered. A folder that is not there yet can be made; a bucket cannot."""
        try:
            self.system.get_file_info(fs.FileSelector(_path(self.url)))
        except FileNotFoundError:
            return

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


def _path(url: str) -> str:
    """As a file system of pyarrow calls it."""
    return url.partition("://")[2]


def _bucket(place: Place) -> fs.FileSystem:
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
