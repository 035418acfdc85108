"""The way out of Postgres: what a delivery and a reconciliation need of the place where documents go."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol
from uuid import UUID

from vitrina.domain.policy import ES_TARGET_PREFIX
from vitrina.meta.repos.indexes import Generation
from vitrina.neighbours import Neighbours
from vitrina.settings import Settings
from vitrina.sinks.elasticsearch.bulk import BulkSender, Shipment
from vitrina.sinks.elasticsearch.client import Elastic
from vitrina.sinks.elasticsearch.index import IndexKeeper


class Keeper(Protocol):
    """Makes, serves and removes the generations of one mart."""

    @property
    def target(self) -> str:
        """The name that people know the mart by."""
        ...

    def name(self, number: int) -> str:
        """Of a generation."""
        ...

    def behind_target(self) -> Mapping[str, Any]:
        """What the target shows now, by name."""
        ...

    def is_ours(self, found: Any) -> bool:
        """Whether this pipeline made it."""
        ...

    def uuid_of(self, index: str) -> str | None:
        """What tells it from another of the same name; None if there is none."""
        ...

    def create(self, generation: Generation, body: dict[str, Any]) -> str | None:
        """Create it and give its uuid; None if somebody else has one of that name."""
        ...

    def take_writes(self, generation: Generation) -> None:
        """From now on, what earlier epochs send is refused."""
        ...

    def write_out(self, index: str) -> None:
        """A hint: most of it has come, and will soon be made ready."""
        ...

    def make_ready(self, index: str, serving: dict[str, Any]) -> None:
        """Whatever it needs before it is served."""
        ...

    def count(self, index: str) -> int:
        """How many documents it has."""
        ...

    def serve(self, generation: Generation) -> None:
        """Let the target show it, in one move."""
        ...

    def remove(self, generation: Generation) -> None:
        """Away with it, if it is ours."""
        ...


class Outlet(Protocol):
    """One run's way to it."""

    @property
    def keeper(self) -> Keeper:
        """Of its generations."""
        ...

    @property
    def threads(self) -> int:
        """How many shipments may be on their way at once."""
        ...

    def sender(
        self, generation: Generation, newest: Callable[[], int], check: Callable[[], None]
    ) -> Callable[[Shipment], None]:
        """What sends a shipment until all of it has arrived; `newest` is the highest version that was given out."""
        ...

    def scan(self, index: str) -> Iterator[bytes]:
        """Every document of a generation, or of what the target shows, in pages as a search answers."""
        ...

    def sources(self, index: str, ids: list[str]) -> bytes:
        """Some documents, as a multi-get answers."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class ElasticOutlet:
    """To an Elasticsearch."""

    def __init__(
        self, settings: Settings, pipeline_id: UUID, target: str, epoch: int, neighbours: Neighbours | None = None
    ) -> None:
        self.elastic = Elastic(settings, neighbours=neighbours)
        self.keeper = IndexKeeper(self.elastic, pipeline_id, target.removeprefix(ES_TARGET_PREFIX), epoch)
        self.threads = settings.es_senders
        self._target = target

    def sender(
        self, generation: Generation, newest: Callable[[], int], check: Callable[[], None]
    ) -> Callable[[Shipment], None]:
        """Through the write alias of this epoch."""
        del generation  # the alias points to it
        return BulkSender(self.elastic, self.keeper.write_alias, newest, check, self._target).send

    def scan(self, index: str) -> Iterator[bytes]:
        """As searches see it now."""
        self.elastic.refresh(index)
        return self.elastic.scan(index)

    def sources(self, index: str, ids: list[str]) -> bytes:
        """As they were answered."""
        return self.elastic.sources(index, ids)

    def close(self) -> None:
        """Its connections."""
        self.elastic.close()
