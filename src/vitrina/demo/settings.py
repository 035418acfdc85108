"""What the demo needs to be allowed: said to its own process, and left in `home` for those that run its pipelines."""

from collections.abc import Iterable

from vitrina.demo.search import INDEXES
from vitrina.settings import DEMO, Settings, variable

SCHEMAS = ["content", "ugc", "analytics"]  # the cinema's, and its marts, of which others are made


def allow_cinema(settings: Settings) -> Settings:
    """The settings, with the cinema's schemas and indexes in them. The environment and `.env` are above the file.

    Of an embedded Elasticsearch all indexes are allowed as long as nobody names some: then the demo names none."""
    allowed = {"allowed_source_schemas": _with(settings.allowed_source_schemas, SCHEMAS)}
    if settings.elasticsearch_url or "allowed_es_indexes" in settings.model_fields_set:
        allowed["allowed_es_indexes"] = _with(settings.allowed_es_indexes, INDEXES)
    lines = [f"{variable(name)}={','.join(values)}" for name, values in allowed.items()]
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / DEMO).write_text("\n".join(["# Left by `vitrina demo`.", *lines, ""]))
    return settings.model_copy(update=allowed)


def _with(given: Iterable[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*given, *more]))
