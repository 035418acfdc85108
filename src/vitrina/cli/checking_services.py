"""The doctor's look at what else there is to answer: Elasticsearch, the API and the runners."""

import re
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from vitrina import __version__, bootstrap
from vitrina.cli.checking import Check, Checks, allowed_targets, refused
from vitrina.cli.processes import Background
from vitrina.client import Client, ClientError, Runner, find_token, find_url, is_alive
from vitrina.domain.diagnoses import Diagnosis
from vitrina.domain.policy import ES_TARGET_PREFIX, OS_TARGET_PREFIX, SINK_NAMES
from vitrina.domain.wording import Data
from vitrina.embedded.elasticsearch import embedded_elasticsearch, find_server
from vitrina.settings import Settings

if TYPE_CHECKING:
    from vitrina.sinks.search.client import SearchClient

TESTED = {  # which versions are, and how to say so
    "Elasticsearch": (r"[89]\.", "Elasticsearch 8 or 9"),
    "OpenSearch": (r"3\.([3-9]|\d\d)", "OpenSearch 3, from 3.3 on"),
}
UP_SEARCH = "vitrina up --search (after vitrina down, if the stack runs)"


def check_search(settings: Settings) -> Checks:
    """Only pipelines to es: need it, so that none at all is well too."""
    found = bootstrap.running_search(settings)
    if found.elasticsearch_url:
        from vitrina.sinks.elasticsearch.client import Elastic  # only here: most have none

        with closing(Elastic(found)) as client:
            yield from _search_server(client, find_server(found).url)
        yield allowed_targets("indexes", ES_TARGET_PREFIX, found, "film_*")
    elif embedded_elasticsearch(settings).exists():
        yield Check("warn", "Elasticsearch", Diagnosis.SEARCH_DOWN, {"way": UP_SEARCH})
    else:
        yield Check("ok", "Elasticsearch", Diagnosis.NO_SEARCH, {"way": UP_SEARCH})


def check_opensearch(settings: Settings) -> Checks:
    """Only who names one has one."""
    if settings.opensearch_url is None:
        return
    from vitrina.sinks.opensearch.client import OpenSearch  # only here: most have none

    with closing(OpenSearch(settings)) as client:
        yield from _search_server(client, client.shown)
    yield allowed_targets("OpenSearch indexes", OS_TARGET_PREFIX, settings, "film_*")


def _search_server(client: "SearchClient", url: str) -> Checks:
    """Whether it answers, and how it is."""
    name, (tested, which) = client.name, TESTED[client.name]
    health, version = client.health().body["status"], client.version()
    data: Data = {"version": version, "url": url, "health": health, "tested": which}
    if health == "red":
        yield Check("fail", name, Diagnosis.SEARCH_RED, data)
    elif not re.match(tested, version):
        yield Check("warn", name, Diagnosis.SEARCH_UNTESTED, data)
    else:
        yield Check("ok", name, Diagnosis.SEARCH, data)


def check_api(settings: Settings) -> Checks:
    """With the token of whoever asks."""
    url = find_url(settings.url, settings.home)
    try:
        is_alive(url)
    except ClientError as error:
        yield _silent(settings, url, error)
        return
    yield Check("ok", "API", Diagnosis.API, {"url": url})
    token = find_token(settings.token.get_secret_value() if settings.token else None, settings.home)
    if not token:
        yield Check("fail", "token", Diagnosis.NO_TOKEN)
        return
    with Client(url, token, retries=0) as client:
        try:
            runners = [runner for runner in client.runners() if runner.alive]
        except ClientError as error:
            yield refused("token", error)
            return
    yield Check("ok", "token", Diagnosis.TOKEN)
    yield from _runners([runner.version for runner in runners])
    yield from find_neighbours(runners)


def find_neighbours(runners: Sequence[Runner]) -> Checks:
    """Who does not answer the runners: their pipelines wait, and nobody else."""
    for runner in runners:
        for name, outage in runner.neighbours.items():
            who = SINK_NAMES.get(name, f"source {name}")
            data = {"runner": runner.name, "who": who, "since": outage["since"], "error": outage["error"]}
            yield Check("warn", "neighbours", Diagnosis.NEIGHBOUR_AWAY, data)


def _silent(settings: Settings, url: str, error: ClientError) -> Check:
    if settings.url:
        return Check("fail", "API", Diagnosis.API_AWAY, {"error": error.message})
    if (settings.home / "api.pid").exists() and Background(settings.home, "api").pid is None:
        return Check("fail", "API", Diagnosis.API_DIED)
    return Check("warn", "API", Diagnosis.API_DOWN, {"url": url})


def _runners(versions: list[str]) -> Checks:
    others = sorted({version for version in versions if version != __version__})
    data: Data = {"count": len(versions), "version": __version__, "others": others}
    if not versions:
        yield Check("fail", "runners", Diagnosis.NO_RUNNERS)
    elif others:
        yield Check("warn", "runners", Diagnosis.RUNNERS_DIFFER, data)
    else:
        yield Check("ok", "runners", Diagnosis.RUNNERS, data)
