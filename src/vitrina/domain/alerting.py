"""What alerts tell of, and in which formats."""

from enum import StrEnum

KINDS = (
    "failed",
    "stale",
    "outage",
    "stuck",
    "wrong",
    "check",
)  # of incidents; `recovered` goes where its incident went
RECOVERED, TEST = "recovered", "test"


class Format(StrEnum):
    """In which words, and by which way, a destination is told."""

    SIGNED = "signed"
    SLACK = "slack"
    TEAMS = "teams"
    PAGERDUTY = "pagerduty"
    EMAIL = "email"
