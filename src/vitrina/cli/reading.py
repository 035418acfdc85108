"""The pipelines of the files and folders that a command is given, each once, and what cannot be read of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.files import SUFFIXES, Document, files_of, read_documents

HOLDS = "a file is called NAME.yaml and holds name, target_table, …"


@dataclass(frozen=True)
class Unread:
    """A file or a folder that gives no pipeline, and why."""

    file: Path
    error: VitrinaError


def is_place(text: str) -> bool:
    """Whether a word names a file or a folder, there or not, rather than a pipeline."""
    path = Path(text)
    return path.exists() or path.suffix in SUFFIXES or "/" in text


def read_all(sources: Iterable[Path]) -> tuple[list[Document], list[Unread]]:
    """Of all of them, in their order."""
    seen: set[Path] = set()
    found = [each for source in sources for each in read(source, seen)]
    return [each for each in found if isinstance(each, Document)], [each for each in found if isinstance(each, Unread)]


def read(source: Path, seen: set[Path]) -> Iterator[Document | Unread]:
    """What nobody has seen yet of one of them: a file may be named by itself and by its folder."""
    files = files_of(source)
    found = [each for file in files if file.resolve() not in seen for each in _of_file(file)]
    if not found and not (files and seen.issuperset(file.resolve() for file in files)):
        yield Unread(source, ConfigError(f"there is no pipeline in {source}", HOLDS))
    seen.update(file.resolve() for file in files)
    yield from found


def _of_file(file: Path) -> Iterator[Document | Unread]:
    try:
        yield from read_documents(file)
    except VitrinaError as error:
        yield Unread(file, error)
