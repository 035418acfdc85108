"""What queries are put together from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A SELECT with its key."""

    select: str
    key: tuple[str, ...]
    tied: bool = False  # rows may tie where they are chosen by their order


@dataclass(frozen=True)
class Column:
    """A column by its name in SQL, and what it holds: int or num."""

    text: str
    kind: str = "int"


@dataclass(frozen=True)
class Source:
    """A FROM, the columns it gives, and the aliases of whole tables in it."""

    text: str
    columns: tuple[Column, ...]
    tables: tuple[str, ...] = ()

    def with_item(self, item: "Source", text: str) -> "Source":
        """Joined with another, as `text`."""
        return Source(text, (*self.columns, *item.columns), (*self.tables, *item.tables))


@dataclass(frozen=True)
class Body:
    """What a subquery is made of: its FROM and WHERE, and what it gives under which names."""

    source: Source
    text: str
    names: tuple[str, ...]
    parts: tuple[Column, ...]
    depth: int

    @property
    def texts(self) -> list[str]:
        """What it gives."""
        return [part.text for part in self.parts]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns, by their names."""
        return tuple(Column(name, part.kind) for name, part in zip(self.names, self.parts, strict=True))

    @property
    def listed(self) -> str:
        """Its SELECT list."""
        return ", ".join(f"{text} AS {name}" for text, name in zip(self.texts, self.names, strict=True))


Given = tuple[str, tuple[Column, ...]]
