"""Marts in a search engine: a set of documents is an index, ours or somebody else's.

The name that people search is an alias over a numbered index. Writes go through another alias, named after the epoch
of the lease: whoever takes over moves it first, so that what its predecessor still sends finds no index.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from vitrina.domain.errors import ConfigError, FatalError, RetryableError, VitrinaError
from vitrina.domain.policy import split_prefix
from vitrina.sinks.search.bulk import BulkSender
from vitrina.sinks.search.client import Answer, SearchClient
from vitrina.sinks.search.shape import REFRESH_SECONDS, REFRESH_TAKES, IndexShape
from vitrina.stores import Batch, Document, Field, Mark, Store, Superseded

OWNER = "vitrina"  # in a mapping's _meta: whose index it is
EXISTS = "resource_already_exists_exception"


class SearchStore(Store):
    """What one pipeline does to its indexes. Without a shape, it makes none."""

    def __init__(
        self,
        client: SearchClient,
        pipeline_id: UUID,
        target: str,
        shape: IndexShape | None = None,
        check: Callable[[], None] = lambda: None,
        senders: int = 1,
    ) -> None:
        self.client = client
        self.shape = shape
        self.senders = senders
        self.seen_after = shape.seen_after if shape else REFRESH_SECONDS + REFRESH_TAKES
        _, self._alias = split_prefix(target)  # that people search
        self._bulk = BulkSender(client, check, target)
        self._write_prefix = f"vitrina-{pipeline_id.hex}-"

    def write_alias(self, epoch: int) -> str:
        """Of an epoch."""
        return f"{self._write_prefix}{epoch}"

    # ── indexes ──────────────────────────────────────────────────────────────────────────────────────────────

    def mark(self, name: str) -> Mark | None:
        """Its uuid, of the index of that very name, and whose it says it is."""
        found = self.client.get(name).get(name)
        return _mark(found) if found else None

    def served(self) -> Mapping[str, Mark]:
        """The indexes that a search of the target would see."""
        return {name: _mark(found) for name, found in self.client.get(self._alias).items()}

    def create(self, name: str, mark: Mark, fields: Sequence[Field], epoch: int) -> None:
        """With the shape's mapping and settings; its uuid is its own."""
        del fields
        assert self.shape is not None
        body = self.shape.body
        mappings = body["mappings"] | {"_meta": {OWNER: {"pipeline": mark.owner}}}
        body = body | {"mappings": mappings, "aliases": {self.write_alias(epoch): {}}}
        answer = self.client.create(name, body)
        if answer.status == 400 and EXISTS in answer.reason:
            found = self.mark(name)
            if found and found.owner != mark.owner:
                raise RetryableError(f"somebody else has just created index {name}")
            self.client.delete(name)  # begun by a run that was lost before it could say so
            answer = self.client.create(name, body)
        if answer.status >= 300:
            raise self._refused(name, answer)

    def _refused(self, name: str, answer: Answer) -> VitrinaError:
        said = f"{self.client.name} would not create index {name}: {answer.reason}"
        if any(block in answer.reason for block in self.client.blocks):
            return self.client.is_away(RetryableError(said))
        if answer.status == 400:
            return ConfigError(said, "correct mapping and settings of the pipeline")
        if answer.status in (401, 403):
            return ConfigError(said, "let its user manage indexes of that name")
        return self.client.is_away(RetryableError(said)) if answer.status >= 429 else FatalError(said)

    def take(self, name: str, epoch: int) -> None:
        """Move the write alias of any earlier epoch to ours; an earlier attempt may have written another index."""
        held = self.client.get(f"{self._write_prefix}*")
        actions: list[dict[str, Any]] = []
        if self.write_alias(epoch) not in held.get(name, {}).get("aliases", {}):
            actions.append({"add": {"index": name, "alias": self.write_alias(epoch)}})
        for index, found in held.items():
            ours = epoch - (index == name)
            older = [name for name in found["aliases"] if self._is_up_to(ours, name)]
            actions += [{"remove": {"index": index, "alias": name, "must_exist": False}} for name in older]
        if actions and not self.client.move_aliases(actions):
            raise RetryableError(f"index {name} has gone while its write alias was moved")

    def _is_up_to(self, last: int, alias: str) -> bool:
        epoch = alias.removeprefix(self._write_prefix)
        return alias.startswith(self._write_prefix) and epoch.isdigit() and int(epoch) <= last

    def serve(self, name: str, epoch: int) -> None:
        """Point the target to it, in one move: a search sees the old index or the new one."""
        actions: list[dict[str, Any]] = []
        for index, found in self.client.get(self._alias).items():
            if index == name:
                continue
            if index == self._alias:
                actions.append({"remove_index": {"index": index}})
            elif self._alias in found["aliases"]:
                actions.append({"remove": {"index": index, "alias": self._alias}})
        actions.append({"add": {"index": name, "alias": self._alias}})
        if not self.client.move_aliases([*self._while_ours(name, epoch), *actions]):
            raise Superseded(f"the write alias {self.write_alias(epoch)} is gone")

    def _while_ours(self, name: str, epoch: int) -> list[dict[str, Any]]:
        """A condition, as it were: who was stopped and taken over must not move the target back."""
        ours = {"index": name, "alias": self.write_alias(epoch)}
        return [{"remove": ours | {"must_exist": True}}, {"add": ours}]

    def drop(self, name: str) -> None:
        """The index."""
        self.client.delete(name)

    # ── documents ────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, name: str, batch: Batch, epoch: int) -> None:
        """Through the write alias of the epoch, until every document has been taken."""
        del name  # the alias points to it
        self._bulk.write(self.write_alias(epoch), batch)

    def read(self, name: str) -> Iterator[Document]:
        """As searches see it now."""
        self.client.refresh(name)
        return self.client.scan(name)

    def find(self, name: str, ids: Sequence[str]) -> Iterator[Document]:
        """By id, which shows what was written last, searched or not."""
        return self.client.find(name, ids)

    def count(self, name: str) -> int:
        """As many as a search would see now."""
        self.client.refresh(name)
        return self.client.count(name)

    def write_out(self, name: str) -> None:
        """A refresh writes the documents in memory as segments; the next one has only those that come after."""
        self.client.refresh(name)

    def make_ready(self, name: str) -> None:
        """The settings that were put off, and a refresh beside it: among the last documents both take a while."""
        assert self.shape is not None
        self.client.await_shards(name)
        with ThreadPoolExecutor(1, "settings") as aside:
            configuring = aside.submit(self.client.configure, name, self.shape.serving)
            self.client.refresh(name)
            configuring.result()

    def close(self) -> None:
        """Its connections."""
        self.client.close()


def _mark(index: Mapping[str, Any]) -> Mark:
    owner = index.get("mappings", {}).get("_meta", {}).get(OWNER, {}).get("pipeline", "")
    return Mark(str(owner), str(index["settings"]["index"]["uuid"]))
