"""Random SELECTs over the cinema: joins of all kinds, subqueries in every place, keys of every make."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.livefuzz import Shape

# Columns by what they hold; columns of one kind can be joined.
TABLES = {
    "content.film_work": {"id": "film", "title": "word"},
    "content.genre": {"name": "word"},
    "content.genre_film_work": {"film_work_id": "film"},
    "ugc.ratings": {"film_id": "film", "rating": "tiny"},
    "ugc.likes": {"film_id": "film"},
    "content.studio": {"id": "number", "parent_id": "number", "name": "word", "country": "word"},
    "content.film_studio": {"id": "number", "studio_id": "number", "film_id": "film"},
    "content.tag": {"id": "number", "film_id": "film", "name": "word"},
    "ugc.settings": {"id": "number", "threshold": "number", "film_id": "film"},
}
JOINS = ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]
DEFAULTS = {"number": "3", "word": "'b'", "film": "'00000001-0000-0000-0000-000000000002'::uuid", "tiny": "5::smallint"}


@dataclass(frozen=True)
class Column:
    """A column by its name in SQL, and what it holds."""

    text: str
    kind: str


@dataclass
class Author:
    """Writes queries at random."""

    rng: random.Random
    aliases: Iterator[int] = field(default_factory=lambda: iter(range(10_000)))

    def shape(self) -> Shape:
        """One query with its key."""
        source, columns = self.joined(2)
        count = self.rng.choice([1, 1, 1, 2])
        keys = [self.key(columns) for _ in range(count)]
        names = tuple(f"k{n}" for n in range(count))
        listed = ", ".join(f"{key} AS {name}" for key, name in zip(keys, names, strict=True))
        where = self.where(columns, 2)
        value = self.value(columns)
        if self.rng.random() < 0.6:
            text = f"SELECT {listed}, count(*) AS n, {value} FROM {source}{where} GROUP BY {', '.join(keys)}"
        elif self.rng.random() < 0.3:
            part = self.rng.choice([*keys, self.rng.choice(columns).text])
            text = f"SELECT {listed}, count(*) OVER (PARTITION BY {part}) AS n FROM {source}{where}"
        else:
            extra = ", ".join(f"{column.text} AS v{n}" for n, column in enumerate(columns))
            text = f"SELECT {listed}, {extra}{self.scalar(columns)} FROM {source}{where}"
        return Shape(text, names, text)

    def value(self, columns: Sequence[Column]) -> str:
        """An aggregate that shows the rows of a group."""
        column = self.rng.choice(columns).text
        return f"string_agg({column}::text, ',' ORDER BY {column}::text) AS v"

    def key(self, columns: Sequence[Column]) -> str:
        """A key: a column, or something made of one or two."""
        one = self.rng.choice(columns)
        same = [column for column in columns if column.kind == one.kind]
        other = self.rng.choice(same).text
        return self.rng.choice(
            [one.text] * 5
            + [f"coalesce({one.text}, {other})", f"coalesce({one.text}, {other})", f"{one.text}::text"]
            + [
                f"coalesce({one.text}, {DEFAULTS[one.kind]})",
                f"CASE WHEN {one.text} IS NULL THEN {other} ELSE {one.text} END",
            ]
        )

    def joined(self, depth: int) -> tuple[str, list[Column]]:
        """A FROM and the columns it gives."""
        text, columns = self.item(depth)
        for _ in range(self.rng.choice([0, 1, 1, 2, 2])):
            more, own = self.item(depth)
            condition = self.tie(columns, own)
            if not condition:
                continue
            how = self.rng.choice(JOINS)
            if how != "FULL JOIN" and self.rng.random() < 0.4:
                condition += f" AND {self.condition([*columns, *own], depth - 1)}"
            text, columns = f"{text} {how} {more} ON {condition}", [*columns, *own]
        return text, columns

    def tie(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        """An equality of two columns of one kind."""
        pairs = [(one, other) for one in left for other in right if one.kind == other.kind]
        if not pairs:
            return ""
        one, other = self.rng.choice(pairs)
        if self.rng.random() < 0.15:
            return f"coalesce({one.text}, {DEFAULTS[one.kind]}) = {other.text}"
        return f"{one.text} = {other.text}"

    def item(self, depth: int) -> tuple[str, list[Column]]:
        """A table or a subquery."""
        alias = f"a{next(self.aliases)}"
        if depth == 0 or self.rng.random() < 0.65:
            table = self.rng.choice(list(TABLES))
            return f"{table} {alias}", [Column(f"{alias}.{name}", kind) for name, kind in TABLES[table].items()]
        text, kinds = self.subquery(depth - 1)
        return f"({text}) {alias}", [Column(f"{alias}.c{n}", kind) for n, kind in enumerate(kinds)]

    def subquery(self, depth: int) -> tuple[str, list[str]]:
        """A SELECT for FROM, grouped or not, perhaps a union."""
        source, columns = self.joined(depth)
        chosen = self.rng.sample(columns, min(len(columns), self.rng.randint(1, 2)))
        where, kinds = self.where(columns, depth), [column.kind for column in chosen]
        outputs = [self.output(column) for column in chosen]
        listed = ", ".join(f"{text} AS c{n}" for n, text in enumerate(outputs))
        form = self.rng.random()
        if form < 0.35:
            return f"SELECT {listed} FROM {source}{where} GROUP BY {', '.join(outputs)}", kinds
        if form < 0.45:
            return f"SELECT DISTINCT {listed} FROM {source}{where}", kinds
        if form < 0.55:
            order = ", ".join(f"{column.text}::text" for column in columns)
            return (
                f"SELECT DISTINCT ON ({outputs[0]}) {listed} FROM {source}{where} ORDER BY {outputs[0]}, {order}",
                kinds,
            )
        if form < 0.65:
            word = self.rng.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
            return f"SELECT {listed} FROM {source}{where} {word} SELECT {listed} FROM {source}", kinds
        return f"SELECT {listed} FROM {source}{where}", kinds

    def output(self, column: Column) -> str:
        """A column, now and then with something for NULL."""
        return f"coalesce({column.text}, {DEFAULTS[column.kind]})" if self.rng.random() < 0.1 else column.text

    def where(self, columns: Sequence[Column], depth: int) -> str:
        """A WHERE, or none."""
        many = self.rng.choice([0, 0, 1, 2])
        return " WHERE " + " AND ".join(self.condition(columns, depth) for _ in range(many)) if many else ""

    def condition(self, columns: Sequence[Column], depth: int) -> str:
        """Something to demand: of a column, of two, or by a subquery."""
        one = self.rng.choice(columns)
        other = self.rng.choice([column for column in columns if column.kind == one.kind])
        if depth > 0 and self.rng.random() < 0.5:
            return self.subquery_condition(one, depth - 1)
        return self.rng.choice(
            [
                f"{one.text} IS NOT NULL",
                f"{one.text} IS NULL",
                f"{one.text} = {other.text}",
                f"{one.text} > {other.text}",
                f"{one.text} <> {DEFAULTS[one.kind]}",
                f"coalesce({one.text}, {other.text}) > {DEFAULTS[one.kind]}",
            ]
        )

    def subquery_condition(self, one: Column, depth: int) -> str:
        """EXISTS, IN or NOT IN."""
        source, columns = self.joined(depth)
        same = [column for column in columns if column.kind == one.kind]
        if not same:
            return f"{one.text} IS NOT NULL"
        inner, word = self.rng.choice(same), self.rng.choice(["", "", "NOT "])
        extra = self.where(columns, depth)
        if self.rng.random() < 0.5:
            return f"{one.text} {word}IN (SELECT {inner.text} FROM {source}{extra})"
        tied = f"{extra} AND" if extra else " WHERE"
        return f"{word}EXISTS (SELECT FROM {source}{tied} {inner.text} = {one.text})"

    def scalar(self, columns: Sequence[Column]) -> str:
        """A subquery that counts, as one more column."""
        if self.rng.random() < 0.6:
            return ""
        one = self.rng.choice(columns)
        source, own = self.joined(0)
        same = [column for column in own if column.kind == one.kind]
        return f", (SELECT count(*) FROM {source} WHERE {self.rng.choice(same).text} = {one.text}) AS s" if same else ""
