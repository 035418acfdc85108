"""An index on the server: ours or somebody else's, created, put under its aliases, removed.

The name that people search is an alias over a numbered index. Writes go through another alias, named after the epoch
of the lease: whoever takes over moves it first, so that what its predecessor still sends finds no index.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from vitrina.domain.errors import ConfigError, FatalError, RetryableError
from vitrina.meta.repos.indexes import Generation
from vitrina.sinks.elasticsearch.client import Elastic, Intruder

OWNER = "vitrina"  # in a mapping's _meta: whose index it is
EXISTS = "resource_already_exists_exception"


@dataclass(frozen=True)
class IndexKeeper:
    """What one pipeline does to its indexes."""

    elastic: Elastic
    pipeline_id: UUID
    target: str  # the alias that people search
    epoch: int

    @property
    def write_alias(self) -> str:
        """Of this epoch."""
        return f"{self._alias_prefix}{self.epoch}"

    @property
    def _alias_prefix(self) -> str:
        return f"vitrina-{self.pipeline_id.hex}-"

    def name(self, number: int) -> str:
        """Of a generation's index."""
        return f"{self.target}-{number:06d}"

    def behind_target(self) -> dict[str, Any]:
        """The indexes that a search of the target would see."""
        return self.elastic.get(self.target)

    def uuid_of(self, index: str) -> str | None:
        """Of the index of that very name; None if there is none."""
        found = self.elastic.get(index).get(index)
        return str(found["settings"]["index"]["uuid"]) if found else None

    def create(self, generation: Generation, body: dict[str, Any]) -> str | None:
        """Create it and give its uuid; None if somebody else has an index of that name."""
        mappings = body["mappings"] | {"_meta": {OWNER: {"pipeline": str(self.pipeline_id)}}}
        body = body | {"mappings": mappings, "aliases": {self.write_alias: {}}}
        answer = self.elastic.create(generation.index, body)
        if answer.status == 400 and EXISTS in answer.reason:
            if not self.is_ours(self.elastic.get(generation.index).get(generation.index, {})):
                return None
            self.elastic.delete(generation.index)  # begun by a run that was lost before it could say so
            answer = self.elastic.create(generation.index, body)
        if answer.status >= 300:
            self._refused(generation, answer.status, answer.reason)
        return self.uuid_of(generation.index)

    def is_ours(self, index: dict[str, Any]) -> bool:
        """Whether this pipeline made it."""
        owner = index.get("mappings", {}).get("_meta", {}).get(OWNER, {})
        return bool(owner.get("pipeline") == str(self.pipeline_id))

    def take_writes(self, generation: Generation) -> None:
        """Move the write alias of any earlier epoch to ours; an earlier attempt may have written another index."""
        held = self.elastic.get(f"{self._alias_prefix}*")
        actions: list[dict[str, Any]] = []
        if self.write_alias not in held.get(generation.index, {}).get("aliases", {}):
            actions.append({"add": {"index": generation.index, "alias": self.write_alias}})
        for index, found in held.items():
            ours = self.epoch - (index == generation.index)
            older = [name for name in found["aliases"] if self._is_up_to(ours, name)]
            actions += [{"remove": {"index": index, "alias": name, "must_exist": False}} for name in older]
        if actions and not self.elastic.move_aliases(actions):
            raise RetryableError(f"index {generation.index} has gone while its write alias was moved")

    def _is_up_to(self, last: int, alias: str) -> bool:
        epoch = alias.removeprefix(self._alias_prefix)
        return alias.startswith(self._alias_prefix) and epoch.isdigit() and int(epoch) <= last

    def write_out(self, index: str) -> None:
        """A refresh writes the documents in memory as segments; the next one has only those that come after."""
        self.elastic.refresh(index)

    def make_ready(self, index: str, serving: dict[str, Any]) -> None:
        """The settings that were put off, and a refresh beside it: among the last documents both take a while."""
        self.elastic.await_shards(index)
        with ThreadPoolExecutor(1, "settings") as aside:
            configuring = aside.submit(self.elastic.configure, index, serving)
            self.elastic.refresh(index)
            configuring.result()

    def count(self, index: str) -> int:
        """As many as a search would see now."""
        self.elastic.refresh(index)
        return self.elastic.count(index)

    def serve(self, generation: Generation) -> None:
        """Point the target to it, in one move: a search sees the old index or the new one."""
        actions: list[dict[str, Any]] = []
        for index, found in self.behind_target().items():
            if index == generation.index:
                continue
            if index == self.target:
                actions.append({"remove_index": {"index": index}})
            elif self.target in found["aliases"]:
                actions.append({"remove": {"index": index, "alias": self.target}})
        actions.append({"add": {"index": generation.index, "alias": self.target}})
        if not self.elastic.move_aliases([*self._while_ours(generation), *actions]):
            raise Intruder(f"the write alias {self.write_alias} is gone")

    def _while_ours(self, generation: Generation) -> list[dict[str, Any]]:
        """A condition, as it were: who was stopped and taken over must not move the target back."""
        ours = {"index": generation.index, "alias": self.write_alias}
        return [{"remove": ours | {"must_exist": True}}, {"add": ours}]

    def remove(self, generation: Generation) -> None:
        """Delete its index, unless somebody has put another one in its place."""
        found = self.elastic.get(generation.index).get(generation.index)
        if found and (self.is_ours(found) or found["settings"]["index"]["uuid"] == generation.uuid):
            self.elastic.delete(generation.index)

    def _refused(self, generation: Generation, status: int, reason: str) -> None:
        said = f"Elasticsearch would not create index {generation.index}: {reason}"
        if status == 400:
            raise ConfigError(said, "correct mapping and settings of the pipeline")
        if status in (401, 403):
            raise ConfigError(said, "let its user manage indexes of that name")
        raise RetryableError(said) if status >= 429 else FatalError(said)
