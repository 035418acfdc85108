"""Where a mart in files is, by its target, and what the answers of that place mean.

A bucket that does not answer, or answers that it cannot now, is away: who needs it waits. One that refuses is not.
"""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.files.extra import bucket
from vitrina.sinks.files.folder import Folder
from vitrina.sinks.files.shelf import Shelf
from vitrina.sinks.parquet.patience import Patience
from vitrina.sinks.parquet.reaching import reaching

FOLDER = "file://"
BUCKETS = "s3:"  # by which all of them are known: one sign-in, and one endpoint
ENDPOINT = re.compile(r"(https?://[A-Za-z0-9.\[\]:_-]+/?)?")  # whatever else it is ends the thread that opens it
REMEDY = (
    "check that the bucket is there, VITRINA_LAKE_ENDPOINT and VITRINA_LAKE_REGION, and whose key it is: it needs "
    "s3:ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload there"
)


@dataclass(frozen=True)
class Place:
    """Of one mart; `neighbours` are told how it answers."""

    url: str
    settings: Settings
    neighbours: Neighbours
    patience: Patience

    def __post_init__(self) -> None:
        """As with a lake: half a sign-in is none. An address that is none may hold a secret, and is not shown."""
        if (self.settings.lake_access_key is None) is not (self.settings.lake_secret_key is None):
            remedy = "set both, or neither: then the environment of AWS or the machine's role signs in"
            raise ConfigError("of VITRINA_LAKE_ACCESS_KEY and VITRINA_LAKE_SECRET_KEY only one is set", remedy)
        if self.is_bucket and not ENDPOINT.fullmatch(self.settings.lake_endpoint or ""):
            raise ConfigError("VITRINA_LAKE_ENDPOINT is no address of a bucket", "set it to https://host:port")

    @property
    def is_bucket(self) -> bool:
        """Else a folder."""
        return self.url.startswith(BUCKETS)

    @cached_property
    def shelf(self) -> Shelf:
        """What is there."""
        if not self.is_bucket:
            return Folder(self.url.removeprefix(FOLDER))
        shelf: Shelf = bucket().Bucket(self.url, self.settings, self.patience)
        return shelf

    def missing(self) -> str:
        """The folder above a mart's, if it is not there: then it may just not be mounted."""
        above = Path(self.url.removeprefix(FOLDER)).parent
        return "" if self.is_bucket or above.is_dir() else str(above)

    def reaching(self) -> AbstractContextManager[None]:
        """Whatever goes wrong with files is said, and whether the bucket is away is remembered."""
        return reaching(self.neighbours, BUCKETS if self.is_bucket else "", self._translated)

    def _translated(self, error: OSError) -> VitrinaError:
        refuses = getattr(error, "refuses", None)
        if refuses:
            return ConfigError(f"{self.url} refuses it: {error}", REMEDY)
        if isinstance(error, PermissionError):
            return ConfigError(f"{self.url} refuses it: {error}", "let the runner's user read and write that folder")
        found = RetryableError(f"{self.url} cannot be read or written: {error}")
        found.neighbour = BUCKETS if refuses is False else ""
        return found
