"""From claims to a person: a name, and the highest role that the settings give to anything of theirs."""

from collections.abc import Mapping
from typing import Any

from vitrina.control.api.auth import Role
from vitrina.control.openid.refusal import Refused, Why

LONGEST_NAME = 200


def claim(claims: Mapping[str, Any], path: str) -> Any:
    """One of this very name, or along the dots: `realm_access.roles`. None: there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def name_of(claims: Mapping[str, Any], path: str) -> str:
    """What the person is called here; an address that the provider has not verified is nobody's."""
    found = claim(claims, path)
    if path == "email" and claims.get("email_verified") in (False, "false"):
        found = None
    name = found.strip() if isinstance(found, str) else ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Refused(Why.NAMELESS, f"the claim {path} is {found!r:.200}", claim=path)
    return name


def role_of(claims: Mapping[str, Any], path: str, roles: Mapping[str, str], name: str) -> Role:
    """The highest of what the claim's values are mapped to."""
    found = claim(claims, path)
    values = [found] if isinstance(found, str) else found
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Refused(Why.UNREADABLE, f"the claim {path} is {found!r:.200}", claim=path)
    given = [Role[roles[value].upper()] for value in values if value in roles]
    if not given:
        raise Refused(Why.NO_ROLE, f"the claim {path} of {name!r} is {values!r:.200}", name=name, claim=path)
    return max(given)
