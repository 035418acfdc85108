"""An Elasticsearch of our own, or the one that the settings name."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from vitrina.embedded.distribution import ELASTICSEARCH
from vitrina.embedded.search import EmbeddedSearch
from vitrina.settings import Settings

VERSION = "8.19.0"


@dataclass(frozen=True)
class Server:
    """Where Elasticsearch is and how to sign in; `embedded` if it is one of ours."""

    url: str
    username: str | None = None
    password: SecretStr | None = None
    api_key: SecretStr | None = None
    ca_file: Path | None = None
    embedded: "EmbeddedElasticsearch | None" = None


class EmbeddedElasticsearch(EmbeddedSearch):
    """Without a password."""

    engine = ELASTICSEARCH
    newest = VERSION
    cached_by = "VITRINA_ELASTICSEARCH_CACHE"
    own_settings: ClassVar[Mapping[str, str | bool]] = {"xpack.security.enabled": False}


def find_server(settings: Settings, version: str | None = None) -> Server:
    """The configured server, or the embedded one, started."""
    if settings.elasticsearch_url:
        return _configured(settings, settings.elasticsearch_url.get_secret_value())
    server = embedded_elasticsearch(settings, version)
    server.start()
    return Server(server.url, embedded=server)


def embedded_elasticsearch(settings: Settings, version: str | None = None) -> EmbeddedElasticsearch:
    """The server in `$VITRINA_HOME`."""
    directory = Path(settings.home) / "elasticsearch"
    return EmbeddedElasticsearch(directory, version=version, cache=settings.elasticsearch_cache)


def _configured(settings: Settings, url: str) -> Server:
    """A name and password in the URL move out of it, so that the URL may be shown."""
    parts = urlsplit(url)
    password = SecretStr(unquote(parts.password)) if parts.password else None
    return Server(
        url=urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/"),
        username=settings.elasticsearch_username or (unquote(parts.username) if parts.username else None),
        password=settings.elasticsearch_password or password,
        api_key=settings.elasticsearch_api_key,
        ca_file=settings.elasticsearch_ca_file,
    )
