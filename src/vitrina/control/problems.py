"""What a service answers when it cannot do as asked, by what the caller does next.

Problem (an HTTP status each)
├── NotFound      404   name something that exists
├── Conflict      409   not in this status, or somebody has it already
├── Stale         412   read again, then edit
├── Invalid       422   correct what the findings name
├── Forbidden     403   ask for a role that may
├── Unauthorised  401   show a token
└── Unavailable   503   try again
"""

from collections.abc import Sequence

from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Finding


class Problem(VitrinaError):
    """An error with an HTTP status."""

    status = 500

    def __init__(self, message: str, remedy: str = "", findings: Sequence[Finding] = ()) -> None:
        super().__init__(message, remedy)
        self.findings = tuple(findings)


class NotFound(Problem):
    """Name something that exists."""

    status = 404


class Conflict(Problem):
    """Not in this status, or somebody has it already."""

    status = 409


class Stale(Problem):
    """Read again, then edit."""

    status = 412


class Invalid(Problem):
    """Correct what the findings name."""

    status = 422


class Forbidden(Problem):
    """Ask for a role that may."""

    status = 403


class Unauthorised(Problem):
    """Show a token."""

    status = 401


class Unavailable(Problem):
    """Try again."""

    status = 503
