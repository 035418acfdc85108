"""What can go wrong, by what the caller does next.

ClientError
├── Refused              the API said no; `status` and `findings` say why
│   ├── Unauthorised     401   show a token
│   ├── Forbidden        403   ask for a role that may
│   ├── NotFound         404   name something that exists
│   ├── Conflict         409   not in this status, or somebody has it already
│   ├── Stale            412   read again, then edit
│   └── Invalid          422   correct what the findings name
├── Unavailable          503   it cannot now; asked again as often as the client may
├── Unreachable          no API answers there, or the answer was lost
├── TimedOut             it goes on, and we no longer wait
├── RequestFailed        a runner could not answer the request
└── RunEnded             the run is over, and it is no success; `run` is its last attempt
    ├── RunFailed
    ├── RunPaused
    └── RunDropped       somebody paused or disabled the pipeline before it ran; there is no `run`
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .records import Run

Json = dict[str, Any]


class ClientError(Exception):
    """An error with a message for people: what is wrong, and what to do about it."""

    def __init__(
        self, message: str, remedy: str = "", status: int | None = None, findings: Sequence[Json] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.status = status
        self.findings = list(findings)

    def __str__(self) -> str:
        return f"{self.message} — {self.remedy}" if self.remedy else self.message


class Refused(ClientError):
    """The API said no."""


class Unauthorised(Refused):
    """Show a token."""


class Forbidden(Refused):
    """Ask for a role that may."""


class NotFound(Refused):
    """Name something that exists."""


class Conflict(Refused):
    """Not in this status, or somebody has it already."""


class Stale(Refused):
    """Read again, then edit."""


class Invalid(Refused):
    """Correct what the findings name."""


class Unavailable(ClientError):
    """It cannot now; try again."""


class Unreachable(ClientError):
    """No API answers there, or the answer was lost."""


class TimedOut(ClientError):
    """It goes on, and we no longer wait."""


class RequestFailed(ClientError):
    """A runner could not answer the request."""


class RunEnded(ClientError):
    """The run is over, and it is no success."""

    def __init__(self, message: str, remedy: str = "", run: "Run | None" = None) -> None:
        super().__init__(message, remedy)
        self.run = run


class RunFailed(RunEnded):
    """The last attempt failed; the message has its error."""


class RunPaused(RunEnded):
    """Somebody paused it; a run goes on where it stopped."""


class RunDropped(RunEnded):
    """Somebody paused or disabled the pipeline before it ran."""


BY_STATUS: dict[int, type[ClientError]] = {
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Stale,
    422: Invalid,
    503: Unavailable,
}
