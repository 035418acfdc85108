"""Who makes publications and triggers, and who captures, are two unless only one is named."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from vitrina.capture.stream import Stream
from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.domain.pipeline import WAREHOUSE
from vitrina.meta.db import Connection, connect, fetch_one
from vitrina.meta.services import find_service


@dataclass(frozen=True)
class Ends:
    """The meta-store, the source as who makes things there, and as who captures."""

    meta: Connection
    owner: Connection
    streamer: Connection
    conninfo: str  # of who captures

    @property
    def role(self) -> str:
        """Who captures."""
        row = fetch_one(self.streamer, "SELECT current_user::text AS role")
        assert row is not None
        return str(row["role"])

    def require_stream(self, source: str) -> None:
        """The proof that this role may stream, whatever its server calls the right: before anything is made there."""
        try:
            stream = Stream(self.conninfo)
            stream.identify()
        except Exception as error:
            role, setting = self.role, streamer_setting(source)
            why = error.message if isinstance(error, VitrinaError) else str(error)
            said = f"{role}, who captures source {source!r}, cannot stream its WAL: {why}"
            instead = f"or let {setting} sign in as who may, past any pooler; or capture by trigger (--kind trigger)"
            raise ConfigError(said, f"{find_service(self.owner).let_stream(role)}; {instead}") from error
        stream.close()


@contextmanager
def open_ends(meta: Connection, owner: str, captures: str) -> Iterator[Ends]:
    """By their addresses."""
    with ExitStack() as opened:
        first = opened.enter_context(connect(owner, "capture"))
        second = first if owner == captures else opened.enter_context(connect(captures, "capture"))
        yield Ends(meta, first, second, captures)


def streamer_setting(source: str) -> str:
    """Who reads the changes of a source."""
    return "VITRINA_CAPTURE_URL" if source == WAREHOUSE else f"VITRINA_CAPTURE_SOURCES__{source.upper()}"
