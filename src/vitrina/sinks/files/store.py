"""The versions of one mart in files: which one the manifest names, and the next. Runs write them by `delivery.py`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from vitrina.domain.errors import ConfigError, RetryableError
from vitrina.domain.policy import split_prefix
from vitrina.sinks.files.extra import parquet
from vitrina.sinks.files.folder import PASSING
from vitrina.sinks.files.manifest import NAME, NOTE, Manifest, Part
from vitrina.sinks.files.place import Place
from vitrina.sinks.files.shape import FilesShape
from vitrina.sinks.files.shelf import Changed, Seen
from vitrina.sinks.parquet.writer import VERSION
from vitrina.stores import Batch, Document, Field, Mark, Store, Superseded

if TYPE_CHECKING:
    from vitrina.sinks.files.draft import Draft

VERSIONS = re.compile(r"(\d{6,})-[0-9a-f]{12}")  # a folder: the edition, and what tells it from any other
CONDITIONS = {"If-None-Match": None, "If-Match": f'"{"0" * 32}"'}  # that a file which is there does not meet
PASSED = re.compile(rf"{PASSING}-[0-9a-f]{{32}}")  # in the mart's own folder: a manifest that never was
PARTS = re.compile(rf"[^/]+/(part-[0-9a-f]{{12}}\.parquet|{PASSING}-[0-9a-f]{{32}})")
LOOKS = 5  # at a manifest that others change meanwhile


class FilesStore(Store):
    """A folder for each version; one of them is named by the manifest."""

    def __init__(self, place: Place, pipeline_id: UUID, target: str, shape: FilesShape | None, grace: float) -> None:
        self.place = place
        self.pipeline = str(pipeline_id)
        self.shape = shape
        self.grace = grace
        _, self.mart = split_prefix(target)
        self.manifest: Manifest | None = None
        self.tag: str | None = None
        self.is_contested = False  # somebody who was lost may be about to switch the manifest
        self.drafted: Manifest | None = None  # what the draft will be
        self.draft: Draft | None = None

    # ── what is there ────────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """At the manifest. One that cannot be read is somebody else's."""
        with self.place.reaching():
            found = self.place.shelf.get(NAME)
        data, self.tag = found or (b"", None)
        self.manifest = (Manifest.parse(data) or Manifest("", 0, "", 0, folder="?")) if found else None

    def name_of(self, number: int) -> str:
        """Of an edition."""
        return f"{self.mart}{number:06d}"

    def _number(self, name: str) -> int:
        number = name.removeprefix(self.mart)
        return int(number) if number.isdigit() else 0

    def version(self, name: str) -> Manifest | None:
        """Of an edition: the one that is served; else what a run of this pipeline has begun, and how far it came."""
        served, number = self.manifest, self._number(name)
        if served and served.folder and served.edition == number:
            return served
        with self.place.reaching():
            notes = [self._note_in(folder) for folder in self._folders(number)]
        found = [note for note in notes if note and note.pipeline == self.pipeline]
        return max(found, key=lambda note: (note.is_whole, note.sequence), default=None)

    def _folders(self, number: int) -> set[str]:
        """Of an edition."""
        return {folder for folder in self._files() if int(folder.partition("-")[0]) == number}

    def _files(self) -> dict[str, list[Seen]]:
        """By the folder of its version, every file that is there."""
        found: dict[str, list[Seen]] = {}
        for seen in self.place.shelf.list():
            folder, is_below, _ = seen.path.partition("/")
            if is_below and VERSIONS.fullmatch(folder):
                found.setdefault(folder, []).append(seen)
        return found

    def _note_in(self, folder: str) -> Manifest | None:
        found = self.place.shelf.get(f"{folder}/{NOTE}")
        return Manifest.parse(found[0]) if found else None

    def lost(self, name: str) -> list[str]:
        """The files of a version that are gone, or are not as they were written."""
        version = self.version(name)
        if version is None:
            return []
        with self.place.reaching():
            there = {seen.path: seen.bytes for seen in self.place.shelf.list(version.folder)}
        return [part.path for part in version.parts if there.get(part.path) != part.bytes]

    # ── what a store does ────────────────────────────────────────────────────────────────────────────────────

    def mark(self, name: str) -> Mark | None:
        """Whose it says it is, and what tells it from another of its number."""
        is_begun = self.drafted and self.drafted.edition == self._number(name)  # the served one may have its number
        version = self.drafted if is_begun else self.version(name)
        return Mark(version.pipeline, version.id) if version else None

    def served(self) -> Mapping[str, Mark]:
        """The one that the manifest names."""
        served = self.manifest
        return {self.name_of(served.edition): Mark(served.pipeline, served.id)} if served and served.folder else {}

    def create(self, name: str, mark: Mark, fields: Sequence[Field], epoch: int) -> None:
        """A draft of its first version, which nobody knows of."""
        del fields
        self._begin(Manifest(mark.owner, self._number(name), mark.id, epoch), ())
        if self.place.is_bucket:
            self._try_conditions()

    def _try_conditions(self) -> None:
        """A bucket that does not know them would let two runs switch the manifest, and tell nobody."""
        path = f"{self._drafted.folder}/{NOTE}"
        for condition, tag in CONDITIONS.items():
            with self.place.reaching(), suppress(Changed):
                self.place.shelf.switch(path, b"{}", tag)
                self.note()
                raise ConfigError(
                    f"{self.place.url} is written over in spite of {condition}",
                    "choose a store that keeps conditional writes, or a lake",
                )

    def begin(self, name: str, epoch: int) -> None:
        """A draft of its next version."""
        version = self.version(name)
        if version is None:
            raise RetryableError(f"the files of {name} are gone")
        self._begin(replace(version, epoch=epoch, sequence=version.sequence + 1), version.parts)

    def _begin(self, version: Manifest, base: Sequence[Part]) -> None:
        assert self.shape is not None
        columns = tuple((c.name, c.type) for c in self.shape.columns)
        folder = f"{version.edition:06d}-{uuid4().hex[:12]}"
        self.drafted = replace(version, folder=folder, parts=(), columns=columns, key=self.shape.key, replaced=())
        module = parquet()
        self.note()
        self.draft = module.Draft(self.place.shelf, folder, module.schema_of(self.shape), base)

    @property
    def _drafted(self) -> Manifest:
        assert self.drafted is not None
        return self.drafted

    def note(self) -> None:
        """In the folder of the draft: whose it is, and what is in it."""
        self.drafted = replace(self._drafted, written_at=datetime.now(UTC).isoformat())
        with self.place.reaching():
            self.place.shelf.put(f"{self._drafted.folder}/{NOTE}", self._drafted.text())

    def take(self, name: str, epoch: int) -> None:
        """Only where somebody may be about to switch the manifest: from now on it is not the one that they saw."""
        for _ in range(LOOKS if self.is_contested else 0):
            if self.manifest and self.manifest.pipeline == self.pipeline and self.manifest.epoch > epoch:
                raise Superseded(f"{name} was taken over by a later epoch")
            taken = replace(self.manifest or Manifest(self.pipeline, 0, "", epoch), epoch=epoch)
            with suppress(Changed):
                self._switch(taken)
                self.is_contested = False
                return
            self.look()
        if self.is_contested:
            raise RetryableError(f"the manifest of {self.mart} is changed by somebody else, again and again")

    def finish(self) -> None:
        """All of the draft's files are there, and no more than those."""
        assert self.draft is not None
        with self.place.reaching():
            parts = self.draft.finish()
        self.drafted = replace(self._drafted, parts=parts)
        self.note()

    def serve(self, name: str, epoch: int) -> None:
        """The manifest names it from now on, unless it is not as this run saw it."""
        version = self.drafted or self.version(name)
        assert version is not None
        try:
            self._switch(replace(version, epoch=epoch).after(self.manifest, self.grace))
        except Changed as error:
            raise Superseded(f"the manifest of {self.mart} was changed by somebody else") from error
        self.drafted, self.draft = None, None

    def _switch(self, manifest: Manifest) -> None:
        """One move; an answer that was lost after it had come is known by what is there."""
        text = manifest.text()
        with self.place.reaching():
            try:
                self.tag = self.place.shelf.switch(NAME, text, self.tag)
            except Changed:
                found = self.place.shelf.get(NAME)
                if found is None or found[0] != text:
                    raise
                self.tag = found[1]
        self.manifest = manifest

    def write(self, name: str, batch: Batch, epoch: int) -> None:
        """Nothing is written outside of a step."""
        raise NotImplementedError(f"{name} is written by the steps of a run")

    def read(self, name: str) -> Iterator[Document]:
        """Every row, as the text that it came as."""
        from vitrina.sinks.parquet.rows import to_texts

        module, shape, version = parquet(), self.shape, self.version(name)
        assert shape is not None
        for part in version.parts if version else ():
            with self.place.reaching():
                rows = module.read(self.place.shelf, part, module.schema_of(shape))
            for id_, text in to_texts(shape, rows):
                yield Document(id_, VERSION, text)

    def count(self, name: str) -> int:
        """By what its files say."""
        version = self.drafted or self.version(name)
        assert version is not None
        with self.place.reaching():
            return sum(parquet().count(self.place.shelf, part) for part in version.parts)

    def drop(self, name: str) -> None:
        """Every version of an edition, but for what the manifest names."""
        self.look()
        with self.place.reaching():
            files, kept = self._files(), self.manifest.folders if self.manifest else set()
            for folder in self._folders(self._number(name)) - kept:
                note = self._note_in(folder)
                if note and note.pipeline == self.pipeline:
                    self.remove([seen.path for seen in files[folder]])

    # ── what nobody needs ────────────────────────────────────────────────────────────────────────────────────

    def unused(self, seconds: float) -> list[str]:
        """Files of versions that were replaced long enough ago, or that nobody names and nobody has touched lately."""
        assert self.manifest is not None
        now = datetime.now(UTC)
        over = {version.folder for version in self.manifest.replaced if version.is_over(now, self.grace)}
        named = self.manifest.folders | ({self.drafted.folder} if self.drafted else set())
        with self.place.reaching():
            found = self._files()
            left = [f for f, files in found.items() if f in over or (f not in named and _is_old(files, now, seconds))]
            ours = [folder for folder in left if self._is_ours(folder, found[folder])]
            passing = [seen for seen in self.place.shelf.list() if PASSED.fullmatch(seen.path)]
        unwritten = [seen.path for seen in passing if _is_old([seen], now, seconds)]
        return [*unwritten, *(seen.path for folder in ours for seen in found[folder])]

    def _is_ours(self, folder: str, files: Sequence[Seen]) -> bool:
        """Or of nobody: its note was never written, or has been removed already, and nobody else's file is there."""
        if f"{folder}/{NOTE}" in (seen.path for seen in files):
            note = self._note_in(folder)
            return note is not None and note.pipeline == self.pipeline
        return all(PARTS.fullmatch(seen.path) for seen in files)

    def remove(self, paths: Sequence[str]) -> None:
        """What says whose they are goes last."""
        notes = {path for path in paths if path.endswith(NOTE)}
        with self.place.reaching():
            for some in ([path for path in paths if path not in notes], sorted(notes)):
                if some:
                    self.place.shelf.remove(some)

    def close(self) -> None:
        """Whatever is being written is not waited for by anybody else."""
        if self.draft:
            self.draft.close()
        self.place.shelf.close()


def _is_old(files: Sequence[Seen], now: datetime, seconds: float) -> bool:
    return all(now.timestamp() - seen.at >= seconds for seen in files)
