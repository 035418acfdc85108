"""Sources as things: where each is, whether it answers, what its reader may do there, and what there is to read."""

import time
from dataclasses import dataclass, field

from psycopg.conninfo import conninfo_to_dict

from vitrina.control.plane import ControlPlane
from vitrina.control.problems import NotFound
from vitrina.domain.errors import VitrinaError
from vitrina.domain.findings import Finding
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.meta.db import fetch_all, queries
from vitrina.meta.repos.captures import CaptureRepo
from vitrina.meta.roles import CAPTURE
from vitrina.sources.registry import kind_of
from vitrina.sources.sight import MODES, Schema, Seen, Sight

PIPELINES = queries("pipelines")
MOST_TABLES = 500


@dataclass(frozen=True)
class SourceInfo:
    """What is known of a source without asking it."""

    name: str
    kind: str
    address: str  # without secrets
    setting: str  # that names it
    pipelines: int
    captured_by: str | None


@dataclass(frozen=True)
class Way:
    """One way to keep a mart of it, and what is in the way."""

    mode: str
    can: bool
    why: list[Finding]


@dataclass(frozen=True)
class Answer:
    """What came of asking it."""

    answers: bool
    milliseconds: float
    error: str | None = None
    remedy: str | None = None
    version: str | None = None
    role: str | None = None
    schemas: list[Schema] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)


@dataclass(frozen=True)
class Sources:
    """Looks, as the reader, and changes nothing."""

    plane: ControlPlane

    def all(self) -> list[SourceInfo]:
        """The warehouse, and those that settings name; none of them is asked."""
        with self.plane.snapshot() as conn:
            counts = {row["source"]: row["count"] for row in fetch_all(conn, PIPELINES["count_by_source"])}
            captures = {capture.source: capture.tap or capture.kind for capture in CaptureRepo(conn).all()}
        return [
            SourceInfo(name, *_described(name, url), counts.get(name, 0), captures.get(name))
            for name, url in self._urls().items()
        ]

    def get(self, name: str) -> SourceInfo:
        """One of them."""
        for found in self.all():
            if found.name == name:
                return found
        known = ", ".join(self._urls())
        raise NotFound(f"there is no source {name!r} (known: {known})", f"set {setting_of(name)}=postgresql://…")

    def ask(self, name: str, *, tables: bool = False) -> Answer:
        """Connect, now, whatever was the last time; an error is an answer too."""
        schemas, started = self.plane.settings.allowed_source_schemas, time.monotonic()
        try:
            with self.plane.connections.resolve_reader(name) as reader:
                version, took = reader.version(), _since(started)
                sight = reader.sight(schemas, self._capturer(name), f"VITRINA_CAPTURE_{_own(name)}")
                seen = reader.tables(schemas, MOST_TABLES) if tables else Seen()
        except VitrinaError as error:
            return Answer(False, _since(started), error.message, error.remedy or f"correct {setting_of(name)}")
        return Answer(True, took, None, None, version, sight.role, list(sight.schemas), _ways(sight), seen)

    def _urls(self) -> dict[str, str]:
        connections = self.plane.connections
        return {WAREHOUSE: connections.reader, **connections.sources}

    def _capturer(self, name: str) -> str | None:
        """Whom runners capture it as, as far as this process is told; None: as its reader."""
        settings = self.plane.settings
        named = settings.capture_url if name == WAREHOUSE else settings.capture_sources.get(name)
        if named:
            return str(conninfo_to_dict(named.get_secret_value()).get("user") or "") or None
        return CAPTURE if name == WAREHOUSE else None


def setting_of(name: str) -> str:
    """The one that says where it is."""
    return "VITRINA_READER_URL" if name == WAREHOUSE else f"VITRINA_{_own(name)}"


def _own(name: str) -> str:
    return "URL" if name == WAREHOUSE else f"SOURCES__{name.upper()}"


def _described(name: str, url: str) -> tuple[str, str, str]:
    """What cannot be read says so in the place of the address."""
    try:
        kind = kind_of(url)
        return next(iter(kind.schemes)), kind.shown(url), setting_of(name)
    except VitrinaError as error:
        return "?", error.message, setting_of(name)


def _ways(sight: Sight) -> list[Way]:
    return [Way(mode, sight.may(mode), list(sight.obstacles.get(mode, ()))) for mode in MODES]


def _since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 1)
