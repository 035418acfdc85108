"""Names for a shell that completes them: asked with what Python brings along, since a shell waits for each."""

import http.client
import json
from urllib.parse import urlencode, urlsplit

from vitrina.cli.given import find_given
from vitrina.client.errors import ClientError
from vitrina.client.finding import find_token, find_url
from vitrina.domain.errors import VitrinaError

SECONDS = 2.0


def complete_names(incomplete: str) -> list[str]:
    """Pipelines whose names start so; none when the API cannot be asked."""
    try:
        given = find_given()
        token = find_token(given.token, given.home)
        return _ask(find_url(given.url, given.home), token, incomplete) if token else []
    except (VitrinaError, ClientError, OSError, ValueError, KeyError, http.client.HTTPException):
        return []


def _ask(url: str, token: str, begin: str) -> list[str]:
    place = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.netloc, timeout=SECONDS)
    try:
        path = f"{place.path}/api/v1/pipelines?{urlencode({'name': begin, 'limit': 200})}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        found = json.load(connection.getresponse())
    finally:
        connection.close()
    return [row["name"] for row in found["items"] if row["name"].startswith(begin)]
