"""Why somebody is not let in: what they are told in their language, and what only the log is told."""

from enum import Enum

from vitrina.domain.errors import VitrinaError


class Why(Enum):
    """A status, what is said, and what to do about it."""

    AWAY = (
        503,
        "{provider} does not answer.",
        "Try again in a minute; for whoever operates Vitrina, its log has the reason.",
    )
    BUSY = 503, "Too many people are signing in at this moment.", "Try again in a minute."
    NONSENSE = (
        502,
        "{provider} does not answer as a provider of OpenID Connect does.",
        "For whoever operates Vitrina: look at VITRINA_OIDC_ISSUER; the log has the reason.",
    )
    STRANGER = (
        502,
        "{provider} does not know this console.",
        "For whoever operates Vitrina: look at VITRINA_OIDC_CLIENT_ID and VITRINA_OIDC_CLIENT_SECRET.",
    )
    DENIED = 403, "{provider} did not let you in: {error}", "Ask there, or begin again."
    LOST = 400, "This sign-in was not begun in this browser, took too long, or has been used.", "Begin again."
    UNTRUSTED = (
        401,
        "What {provider} says of you cannot be relied upon.",
        "Begin again; for whoever operates Vitrina, its log has the reason.",
    )
    NAMELESS = (
        403,
        "{provider} does not say who you are: its claim {claim} is missing, or no name.",
        "For whoever operates Vitrina: look at VITRINA_OIDC_NAME_CLAIM and VITRINA_OIDC_SCOPES.",
    )
    UNREADABLE = (
        403,
        "{provider} does not say what you may do: its claim {claim} is missing, or no list of texts.",
        "For whoever operates Vitrina: look at VITRINA_OIDC_ROLE_CLAIM and VITRINA_OIDC_SCOPES.",
    )
    NO_ROLE = (
        403,
        "{provider} knows you as {name}, and nothing of its claim {claim} has a role here.",
        "Ask whoever operates Vitrina for a role: VITRINA_OIDC_ROLES.",
    )

    def __init__(self, status: int, text: str, remedy: str) -> None:
        self.status, self.text, self.remedy = status, text, remedy


class Refused(VitrinaError):
    """Nobody is signed in. `reason` is for the log: it may hold what others wrote, but never a secret."""

    def __init__(self, why: Why, reason: str = "", **values: str) -> None:
        super().__init__(why.text, why.remedy)
        self.why, self.reason, self.values = why, reason, values
