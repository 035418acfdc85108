"""The manifest: which files are the mart now. Whoever reads the mart reads it first; docs/files.md says how.

What is under `vitrina` is for runners: who may switch it, and what becomes of versions that it no longer names.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self

FORMAT = "vitrina.files/1"
NAME = "_manifest.json"
NOTE = "_version.json"  # in the folder of a version: whose it is, and what was in it when its run was interrupted


@dataclass(frozen=True)
class Part:
    """A file of a version, by its path below the mart."""

    path: str
    rows: int
    bytes: int

    @property
    def folder(self) -> str:
        """Of its version."""
        return self.path.partition("/")[0]


@dataclass(frozen=True)
class Replaced:
    """A version that another has replaced, and when."""

    folder: str
    at: str

    def is_over(self, now: datetime, grace: float) -> bool:
        """Whether nobody can be reading it any more."""
        return (now - datetime.fromisoformat(self.at)).total_seconds() >= grace


@dataclass(frozen=True)
class Manifest:
    """A version: its files, whose it is, and the epoch that wrote it."""

    pipeline: str
    edition: int
    id: str  # of the edition
    epoch: int
    sequence: int = 1  # of the versions of the edition
    folder: str = ""
    parts: tuple[Part, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    key: tuple[str, ...] = ()
    written_at: str = ""
    replaced: tuple[Replaced, ...] = ()

    @property
    def folders(self) -> set[str]:
        """That it names."""
        return {self.folder, *(version.folder for version in self.replaced)} - {""}

    @property
    def is_whole(self) -> bool:
        """Rather than begun: the last thing that is written of a version is which files it has, one at least."""
        return bool(self.parts)

    @classmethod
    def parse(cls, text: bytes) -> Self | None:
        """None if it is none of ours."""
        try:
            said = json.loads(text)
            own = said["vitrina"]
            parts = zip(said["files"], own["rows"], own["bytes"], strict=True)
            return cls(
                pipeline=str(own["pipeline"]),
                edition=int(own["edition"]),
                id=str(own["id"]),
                epoch=int(own["epoch"]),
                sequence=int(own["sequence"]),
                folder=str(said["version"]),
                parts=tuple(Part(str(path), int(rows), int(size)) for path, rows, size in parts),
                columns=tuple((str(c["name"]), str(c["type"])) for c in said["columns"]),
                key=tuple(said["key"]),
                written_at=str(said["written_at"]),
                replaced=tuple(Replaced(str(r["version"]), str(r["at"])) for r in own["replaced"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def text(self) -> bytes:
        """As it is kept."""
        said = {
            "format": FORMAT,
            "version": self.folder,
            "rows": sum(part.rows for part in self.parts),
            "files": [part.path for part in self.parts],
            "columns": [{"name": name, "type": type_} for name, type_ in self.columns],
            "key": list(self.key),
            "written_at": self.written_at,
            "vitrina": {
                "pipeline": self.pipeline,
                "edition": self.edition,
                "id": self.id,
                "epoch": self.epoch,
                "sequence": self.sequence,
                "rows": [part.rows for part in self.parts],
                "bytes": [part.bytes for part in self.parts],
                "replaced": [{"version": version.folder, "at": version.at} for version in self.replaced],
            },
        }
        return json.dumps(said, ensure_ascii=False, indent=1).encode()

    def after(self, before: "Manifest | None", grace: float) -> "Manifest":
        """The same, with what it replaces: versions that are over are named no more."""
        if before is None or before.folder in ("", self.folder):
            return replace(self, replaced=before.replaced if before else ())
        now = datetime.now(UTC)
        kept = [version for version in before.replaced if not version.is_over(now, grace)]
        return replace(self, replaced=(*kept, Replaced(before.folder, now.isoformat())))
