"""Where the lake is, and what signs us in there: everything else asks here.

A bucket that does not answer, or answers that it cannot now, is away: who needs it waits. One that refuses is not.
"""

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vitrina.domain.errors import ConfigError, RetryableError, VitrinaError
from vitrina.domain.policy import LAKE_TARGET_PREFIX
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.parquet.patience import LONG, Patience
from vitrina.sinks.parquet.reaching import reaching

if TYPE_CHECKING:
    from vitrina.sinks.lake.files import Files

URL = "VITRINA_LAKE_URL"
WHERE = "set it where runners run: file:///folder, or s3://bucket/prefix"
FOLDER, BUCKET = "file:///", "s3://"
FILE = re.compile(r"file:///[^?#]*")
BARE = re.compile(r"file:/(?!/)")
S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(/[^/?#%]+)*")
SAID = re.compile(r"AWS Error (?P<code>\w+)(?: \(HTTP status (?P<status>\d+)\))?")
REFUSED = {
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "INVALID_SIGNATURE",
    "MISSING_AUTHENTICATION_TOKEN",
    "NO_SUCH_BUCKET",
    "REQUEST_TIME_TOO_SKEWED",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
}
BUSY = (408, 429)  # of the answers that say that it was our fault
REMEDY = (
    "check that the bucket is there, VITRINA_LAKE_ENDPOINT and VITRINA_LAKE_REGION, and whose key it is: it needs "
    "s3:ListBucket, GetObject, PutObject, DeleteObject and AbortMultipartUpload there"
)


@dataclass(frozen=True)
class Place:
    """A folder, or a bucket; `neighbours` are told how it answers."""

    settings: Settings
    url: str
    neighbours: Neighbours
    patience: Patience

    @classmethod
    def of(cls, settings: Settings, neighbours: Neighbours | None = None, patience: Patience = LONG) -> "Place":
        """As the settings say; a ConfigError if they cannot be meant, which shows no address that may hold a secret."""
        url = (settings.lake_url or "").rstrip("/")
        if not url:
            raise ConfigError(f"{URL} is not set, and so there is no lake", WHERE)
        if not (FILE.fullmatch(url) or S3.fullmatch(url)):
            raise ConfigError(f"{URL} names neither a folder nor a bucket", WHERE)
        if (settings.lake_access_key is None) is not (settings.lake_secret_key is None):
            remedy = "set both, or neither: then the environment of AWS or the machine's role signs in"
            raise ConfigError("of VITRINA_LAKE_ACCESS_KEY and VITRINA_LAKE_SECRET_KEY only one is set", remedy)
        return cls(settings, url, neighbours or Neighbours(), patience)

    @property
    def is_bucket(self) -> bool:
        """Else a folder."""
        return self.url.startswith(BUCKET)

    def reads(self, location: str) -> bool:
        """Whether a file is of a kind that is opened from here, in this lake or where it was before."""
        return spelled(location).startswith((FOLDER, BUCKET) if self.is_bucket else FOLDER)

    @cached_property
    def files(self) -> "Files":
        """What is there. Only here: pyarrow comes with an extra."""
        from vitrina.sinks.lake.bucket import Bucket
        from vitrina.sinks.lake.folder import Folder

        return Bucket(self) if self.is_bucket else Folder(self.url)

    def reaching(self) -> AbstractContextManager[None]:
        """Whatever goes wrong with files is said, and whether the store is away is remembered."""
        return reaching(self.neighbours, LAKE_TARGET_PREFIX, self._translated)

    def _translated(self, error: OSError) -> VitrinaError:
        said = SAID.search(str(error)) if self.is_bucket else None
        if said and _is_refusal(said["code"], int(said["status"] or 0)):
            return ConfigError(f"the lake refuses it: {error}", REMEDY)
        found = RetryableError(f"the lake cannot be read or written: {error}")
        found.neighbour = LAKE_TARGET_PREFIX if said else ""
        return found


def spelled(location: str) -> str:
    """As we write it: Java writes `file:/folder` for `file:///folder`."""
    return BARE.sub(FOLDER, location, count=1) if location.startswith("file:") else location


def _is_refusal(code: str, status: int) -> bool:
    return code in REFUSED or (400 <= status < 500 and status not in BUSY)
