"""A client of the API: typed, synchronous, nothing but httpx; see docs/client.md.

It imports nothing of the rest, and names its own modules relatively: the Airflow provider carries a copy of it, since
Airflow and the control plane need different versions of FastAPI.
"""

from .client import Client, pipeline_path
from .errors import (
    ClientError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    RequestFailed,
    RunDropped,
    RunEnded,
    RunFailed,
    RunPaused,
    Stale,
    TimedOut,
    Unauthorised,
    Unavailable,
    Unreachable,
)
from .events import POLL_SECONDS, Event, check_deadline
from .finding import find_token, find_url
from .outcome import Outcome
from .records import (
    Column,
    Finding,
    Live,
    Pipeline,
    Preview,
    Report,
    Request,
    Requested,
    Run,
    Runner,
    State,
    Status,
    Version,
    read,
)
from .transport import is_alive, is_local

__all__ = [
    "POLL_SECONDS",
    "Client",
    "ClientError",
    "Column",
    "Conflict",
    "Event",
    "Finding",
    "Forbidden",
    "Invalid",
    "Live",
    "NotFound",
    "Outcome",
    "Pipeline",
    "Preview",
    "Refused",
    "Report",
    "Request",
    "RequestFailed",
    "Requested",
    "Run",
    "RunDropped",
    "RunEnded",
    "RunFailed",
    "RunPaused",
    "Runner",
    "Stale",
    "State",
    "Status",
    "TimedOut",
    "Unauthorised",
    "Unavailable",
    "Unreachable",
    "Version",
    "check_deadline",
    "find_token",
    "find_url",
    "is_alive",
    "is_local",
    "pipeline_path",
    "read",
]
