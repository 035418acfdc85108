"""Random SELECTs over the three tables of the oracle, rich in what lets one row decide about another.

Wherever rows are chosen by their order, the order is total as far as one can see, so that the same rows always give the
same result.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from tests.liveoracle.parts import Body, Column, Given, Query, Source
from tests.liveoracle.worlds import COLUMNS, VIEWS

JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
OUTER = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN")
# What a query is mostly about, so that what matters meets in a small one; and how deep it then goes.
THEMES = {"outer": 0, "member": 1, "sets": 1, "choice": 1, "lateral": 1, "number": 1}
FORMS = {
    "sets": ("sets", "sets", "all", "set"),
    "choice": ("on", "window", "limit"),
    "number": ("group", "distinct", "on", "plain"),
    "lateral": ("all", "limit", "on", "plain", "group"),
}
ANY_FORM = (
    *["plain"] * 4, *["group"] * 3, "distinct", *["on"] * 3, *["window"] * 3, "set", "set", "limit", "limit", "sets",
    "all",
)  # fmt: skip
NUMERIC = {("c", "y")}


@dataclass
class Author:
    """Writes queries at random; `depth` is how deep subqueries may stand in one another, `theme` one of THEMES."""

    rng: random.Random
    depth: int = 2
    tied: bool = False
    theme: str = ""
    numbers: Iterator[int] = field(default_factory=count)
    ctes: list[tuple[str, str, tuple[Column, ...]]] = field(default_factory=list)

    def query(self) -> Query:
        """One query with its key."""
        self.numbers, self.ctes = count(), []
        keys = tuple(f"k{n}" for n in range(1, self.rng.choice([1, 1, 1, 2, 2, 3]) + 1))
        if not self.theme and self.chance(0.25):
            text, columns = self.subquery(self.depth - 1)
            self.ctes.append((self.alias(), text, columns))
        body = self.top(keys)
        named = ", ".join(f"{name} AS ({text})" for name, text, _ in self.ctes)
        return Query(f"WITH {named} {body}" if named else body, keys, self.tied)

    def chance(self, share: float) -> bool:
        """True so often."""
        return self.rng.random() < share

    def alias(self) -> str:
        """A name that no other item has."""
        return f"t{next(self.numbers)}"

    def top(self, keys: Sequence[str]) -> str:
        """The outermost SELECT."""
        source = self.source(self.depth)
        exprs = [self.key(source) for _ in keys]
        listed = ", ".join(f"{expr} AS {name}" for expr, name in zip(exprs, keys, strict=True))
        where = self.where(source, self.depth)
        forms: list[Callable[[], str]] = [
            *[lambda: self.grouped(listed, exprs, source, where)] * 5,
            *[lambda: f"SELECT {listed}, {self.values(source)} FROM {source.text}{where}"] * 4,
            lambda: f"SELECT DISTINCT {listed}, {self.expr(source)} AS v FROM {source.text}{where}",
            lambda: self.latest(listed, exprs, source, where),
            lambda: f"SELECT {listed}, {self.window(source, exprs)} AS v FROM {source.text}{where}",
            lambda: self.united(listed, len(keys), source, where),
            lambda: f"SELECT {listed} FROM {source.text}{where} ORDER BY {self.order(source)} LIMIT 2",
        ]
        return self.rng.choice(forms)()

    def key(self, source: Source) -> str:
        """Mostly a column, sometimes something made of columns."""
        if self.theme == "number" and self.chance(0.6):
            return f"{self.rng.choice(source.columns).text}::text"
        if self.theme == "sets" and self.chance(0.4):
            return f"coalesce({self.int_column(source)}, 0)"
        return self.rng.choice(source.columns).text if self.chance(0.65) else self.expr(source)

    def grouped(self, listed: str, exprs: Sequence[str], source: Source, where: str) -> str:
        """GROUP BY the key, and more or less of it."""
        by = list(exprs)
        if self.chance(0.15):
            by.append(self.rng.choice(source.columns).text)
        group = ", ".join(by)
        if len(by) > 1 and self.chance(0.15):
            group = f"GROUPING SETS (({group}), ({by[0]}))"
        having = f" HAVING {self.having(source)}" if self.chance(0.35) else ""
        return f"SELECT {listed}, {self.aggregate(source)} AS v FROM {source.text}{where} GROUP BY {group}{having}"

    def latest(self, listed: str, exprs: Sequence[str], source: Source, where: str) -> str:
        """DISTINCT ON some of the key, or something else."""
        on = self.rng.choice([*exprs, self.rng.choice(source.columns).text])
        return (
            f"SELECT DISTINCT ON ({on}) {listed}, {self.expr(source)} AS v FROM {source.text}{where}"
            f" ORDER BY {on}, {self.order(source)}"
        )

    def united(self, listed: str, keys: int, source: Source, where: str) -> str:
        """Two SELECTs put together."""
        other = self.source(self.depth - 1)
        also = ", ".join(self.int_column(other) for _ in range(keys))
        text = f"SELECT {listed} FROM {source.text}{where} {self.operation()} SELECT {also} FROM {other.text}"
        return text + self.where(other, self.depth - 1)

    def operation(self) -> str:
        """UNION and its kind."""
        words = ["UNION", "UNION ALL", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]
        return self.rng.choice(words)

    def values(self, source: Source) -> str:
        """Some columns to show."""
        shown = [f"{self.expr(source, 1)} AS v{n}" for n in range(self.rng.randint(1, 2))]
        if source.tables and self.chance(0.15):
            shown.append(f"to_jsonb({self.rng.choice(source.tables)}) AS w")
        return ", ".join(shown)

    def order(self, source: Source) -> str:
        """A total order: rows that tie look the same; or, now and then, one that leaves ties."""
        if self.tied and self.chance(0.5):
            return self.rng.choice(source.columns).text
        return ", ".join(f"{column.text}::text" if column.kind == "num" else column.text for column in source.columns)

    def source(self, depth: int, outer: Source | None = None) -> Source:
        """Items joined in every way."""
        found = self.item(depth, outer)
        for _ in range(self.rng.choice([1, 2, 2] if self.theme == "outer" else [0, 0, 1, 1, 1, 2])):
            found = self.join(found, depth, outer)
        return found

    def join(self, left: Source, depth: int, outer: Source | None) -> Source:
        """One more item."""
        if depth > 0 and self.chance(0.7 if self.theme == "lateral" else 0.2):
            right = self.derived(*self.subquery(depth - 1, left), lateral="LATERAL ")
            how = self.rng.choice(["{} CROSS JOIN {}", "{} LEFT JOIN {} ON true"])
            return left.with_item(right, how.format(left.text, right.text))
        right = self.item(depth, outer)
        how, on = self.rng.choice(OUTER if self.theme == "outer" else JOINS), self.tie(left, right)
        if how == "FULL JOIN" and "<=" in on:
            how = "LEFT JOIN"
        both = left.with_item(right, "")
        if how != "FULL JOIN" and self.chance(0.3):
            on += f" AND {self.condition(both, depth - 1)}"
        return left.with_item(right, f"({left.text} {how} {right.text} ON {on})")

    def tie(self, left: Source, right: Source) -> str:
        """An equality between two sides."""
        recent = left.columns[-len(COLUMNS) :] if self.theme == "outer" else left.columns
        one, other = self.rng.choice(recent).text, self.rng.choice(right.columns).text
        if self.chance(0.6 if self.theme == "outer" else 0.2):
            one = f"coalesce({one}, {self.rng.randint(1, 3)})"
        return f"{one} = {other}" if self.chance(0.9) else f"{one} <= {other}"

    def item(self, depth: int, outer: Source | None = None) -> Source:
        """A table, a view, a CTE, a subquery, a list of values or a function."""
        alias = self.alias()
        if self.ctes and self.chance(0.2):
            name, _, columns = self.rng.choice(self.ctes)
            renamed = tuple(Column(f"{alias}.{column.text}", column.kind) for column in columns)
            return Source(f"{name} AS {alias}", renamed)
        if depth > 0 and self.chance(0.1 if self.theme in ("member", "lateral") else 0.5):
            return self.derived(*self.subquery(depth - 1))
        if self.chance(0.05):
            return Source(f"(VALUES (1, 2), (2, NULL), (3, 3)) AS {alias} (id, x)", self.named(alias, ["id", "x"]))
        if outer is not None and self.chance(0.05):
            return Source(f"generate_series(1, {self.int_column(outer)}) AS {alias} (x)", self.named(alias, ["x"]))
        name = self.rng.choice("bccc" if self.theme == "number" else [*"aaabbbcc", *VIEWS])
        columns = tuple(Column(f"{alias}.{c}", "num" if (name, c) in NUMERIC else "int") for c in COLUMNS)
        return Source(f"o.{name} AS {alias}", columns, (alias,))

    def named(self, alias: str, names: Sequence[str]) -> tuple[Column, ...]:
        """Columns of an item."""
        return tuple(Column(f"{alias}.{name}") for name in names)

    def derived(self, text: str, columns: Sequence[Column], lateral: str = "") -> Source:
        """A subquery of FROM, now and then with its columns renamed there."""
        alias = self.alias()
        if self.chance(0.3):
            names = [f"n{n}" for n in range(len(columns))]
            renamed = tuple(Column(f"{alias}.{n}", c.kind) for n, c in zip(names, columns, strict=True))
            return Source(f"{lateral}({text}) AS {alias} ({', '.join(names)})", renamed)
        return Source(
            f"{lateral}({text}) AS {alias}", tuple(Column(f"{alias}.{c.text}", c.kind) for c in columns), (alias,)
        )

    def subquery(self, depth: int, outer: Source | None = None) -> Given:
        """A SELECT for FROM, and its columns by their names."""
        source = self.source(depth, outer)
        where = self.where(source, depth, outer)
        names = self.rng.sample(COLUMNS, self.rng.randint(1, 3))
        parts = [self.output(source, outer) for _ in names]
        body = Body(source, f" FROM {source.text}{where}", tuple(names), tuple(parts), depth)
        form = self.rng.choice(FORMS.get(self.theme, ANY_FORM))
        given: Given = getattr(self, f"as_{form}")(body)
        return given

    def as_plain(self, body: Body) -> Given:
        """All rows."""
        return f"SELECT {body.listed}{body.text}", body.columns

    def as_group(self, body: Body) -> Given:
        """A row for each group, some of them perhaps left out."""
        having = f" HAVING {self.having(body.source)}" if self.chance(0.25) else ""
        text = (
            f"SELECT {body.listed}, {self.count(body.source)} AS n{body.text} GROUP BY {', '.join(body.texts)}{having}"
        )
        return text, (*body.columns, Column("n"))

    def as_distinct(self, body: Body) -> Given:
        """Each row once."""
        return f"SELECT DISTINCT {body.listed}{body.text}", body.columns

    def as_on(self, body: Body) -> Given:
        """The first row of each."""
        on = ", ".join(self.rng.sample(body.texts, self.rng.randint(1, len(body.texts))))
        return (
            f"SELECT DISTINCT ON ({on}) {body.listed}{body.text} ORDER BY {on}, {self.order(body.source)}",
            body.columns,
        )

    def as_window(self, body: Body) -> Given:
        """Each row with its place among others."""
        return f"SELECT {body.listed}, {self.window(body.source, body.texts)} AS n{body.text}", (
            *body.columns,
            Column("n"),
        )

    def as_limit(self, body: Body) -> Given:
        """The first rows, or all but them."""
        by_count = f"LIMIT (SELECT count(*) FROM {self.source(0).text})"
        end = self.rng.choice(["LIMIT 1", "LIMIT 2", "OFFSET 1", "FETCH FIRST 1 ROWS WITH TIES", by_count])
        return f"SELECT {body.listed}{body.text} ORDER BY {self.order(body.source)} {end}", body.columns

    def as_sets(self, body: Body) -> Given:
        """Groups of several kinds."""
        texts = ", ".join(body.texts)
        sets = self.rng.choice([f"ROLLUP ({texts})", f"GROUPING SETS (({texts}), ({body.texts[0]}))"])
        text = f"SELECT {body.listed}, {self.count(body.source)} AS n{body.text} GROUP BY {sets}"
        return text, (*body.columns, Column("n"))

    def as_all(self, body: Body) -> Given:
        """One row, whatever there is."""
        extreme = f"{self.rng.choice(['max', 'min'])}({self.int_column(body.source)})"
        return f"SELECT {self.count(body.source)} AS x, {extreme} AS y{body.text}", (Column("x"), Column("y"))

    def as_set(self, body: Body) -> Given:
        """With the rows of another SELECT."""
        other = self.source(max(body.depth - 1, 0))
        listed = ", ".join(f"({text})::int AS {name}" for text, name in zip(body.texts, body.names, strict=True))
        also = ", ".join(self.int_column(other) for _ in body.names)
        where = self.where(other, body.depth - 1)
        text = f"SELECT {listed}{body.text} {self.operation()} SELECT {also} FROM {other.text}{where}"
        return text, tuple(Column(name) for name in body.names)

    def output(self, source: Source, outer: Source | None) -> Column:
        """A column to give: mostly one of FROM, else something computed."""
        if outer is not None and self.chance(0.1):
            return Column(self.int_column(outer))
        if self.chance(0.75) or self.theme == "number":
            return self.rng.choice(source.columns)
        return Column(self.expr(source, int_only=True))

    def window(self, source: Source, texts: Sequence[str]) -> str:
        """A rank or a count among others."""
        part = self.rng.sample(list(texts), self.rng.randint(1, len(texts)))
        partition = f"PARTITION BY {', '.join(part)} " if self.chance(0.85) else ""
        ordered = f"({partition}ORDER BY {self.order(source)})"
        return self.rng.choice(
            [
                f"row_number() OVER {ordered}::int",
                f"rank() OVER ({partition}ORDER BY {self.rng.choice(source.columns).text})::int",
                f"count(*) OVER ({partition.strip()})::int",
                f"max({self.int_column(source)}) OVER ({partition.strip()})",
                f"lag({self.int_column(source)}) OVER {ordered}",
                f"first_value({self.int_column(source)}) OVER {ordered}",
                f"count(*) OVER ({ordered[1:-1]} ROWS (SELECT count(*) FROM {self.source(0).text}) PRECEDING)::int",
            ]
        )

    def int_column(self, source: Source) -> str:
        """A column that holds an integer."""
        column = self.rng.choice(source.columns)
        return column.text if column.kind == "int" else f"{column.text}::int"

    def count(self, source: Source) -> str:
        """An aggregate that gives an integer."""
        one = self.int_column(source)
        return self.rng.choice(
            ["count(*)::int", f"count({one})::int", f"max({one})", f"min({one})", f"count(DISTINCT {one})::int",
             f"(array_agg({one} ORDER BY {self.order(source)}))[1]",
             f"(count(*) FILTER (WHERE {self.simple(source)}))::int"]
        )  # fmt: skip

    def aggregate(self, source: Source) -> str:
        """An aggregate that shows the rows of a group."""
        one = self.rng.choice(source.columns).text
        shown = f"string_agg({one}::text, ',' ORDER BY {one}::text)"
        filtered = f"{shown} FILTER (WHERE {self.simple(source)})"
        return self.rng.choice([shown, shown, "count(*)", self.count(source), filtered])

    def having(self, source: Source) -> str:
        """A demand of a group."""
        return f"{self.count(source)} {self.rng.choice(['<', '>', '=', '<>'])} {self.rng.randint(0, 3)}"

    def expr(self, source: Source, depth: int = 0, *, int_only: bool = False) -> str:
        """Something made of columns."""
        one, other = self.int_column(source), self.int_column(source)
        number = self.rng.randint(1, 3)
        forms = [
            one, one, one, f"coalesce({one}, {other})", f"coalesce({one}, {number})", f"greatest({one}, {other})",
            f"least({one}, {number})", f"({one} + 1)", f"nullif({one}, {number})", f"({one} % 2)", str(number),
            f"({one} / nullif({other} - 1, 0))", f"CASE WHEN {one} = {number} THEN {other} ELSE {one} END",
            f"CASE {one} WHEN 1 THEN {other} END", f"({one} IS DISTINCT FROM {other})::int",
        ]  # fmt: skip
        if not int_only:
            forms.append(f"{self.rng.choice(source.columns).text}::text")
        if depth > 0:
            forms += [self.scalar(source, depth - 1)] * 3
        return self.rng.choice(forms)

    def scalar(self, source: Source, depth: int) -> str:
        """A subquery that gives one value."""
        inner = self.source(depth, source)
        where = self.where(inner, depth, source, tied=0.8)
        if self.chance(0.6):
            return f"(SELECT {self.count(inner)} FROM {inner.text}{where})"
        one = self.int_column(inner)
        if self.chance(0.3):
            return f"ARRAY(SELECT {one} FROM {inner.text}{where} ORDER BY {self.order(inner)})::text"
        return f"(SELECT {one} FROM {inner.text}{where} ORDER BY {self.order(inner)} LIMIT 1)"

    def where(self, source: Source, depth: int, outer: Source | None = None, tied: float = 0.7) -> str:
        """A WHERE, or none; tied to the row around it, if there is one."""
        found = [self.condition(source, depth) for _ in range(self.rng.choice([0, 0, 1, 1, 2]))]
        if outer is not None and self.chance(tied):
            found.append(self.tie(outer, source))
        self.rng.shuffle(found)
        return " WHERE " + " AND ".join(found) if found else ""

    def condition(self, source: Source, depth: int) -> str:
        """Something to demand: of columns, or by a subquery."""
        if depth > 0 and self.chance(0.8 if self.theme == "member" else 0.4):
            found = self.subquery_condition(source, depth - 1)
            if self.chance(0.15):
                return f"({found} OR {self.simple(source)})"
            return f"NOT ({found})" if self.chance(0.1) else found
        return self.simple(source)

    def simple(self, source: Source) -> str:
        """A demand of one row's columns."""
        one, other = self.rng.choice(source.columns).text, self.rng.choice(source.columns).text
        number = self.rng.randint(1, 3)
        return self.rng.choice(
            [f"{one} IS NOT NULL", f"{one} IS NULL", f"{one} = {other}", f"{one} <= {other}", f"{one} <> {number}",
             f"{one} = {number}", f"{one} < {number}", f"{one} IN (1, 3)", f"coalesce({one}, {other}) = {number}",
             f"{one} IS DISTINCT FROM {other}", f"({one} = {number} OR {other} = 2)", f"({one} < 2) IS NOT TRUE"]
        )  # fmt: skip

    def subquery_condition(self, source: Source, depth: int) -> str:
        """EXISTS, IN, ANY, ALL or a value compared, and their negations."""
        inner = self.source(depth, source)
        one, two, own = self.int_column(source), self.int_column(source), self.int_column(inner)
        tied = self.where(inner, depth, source, tied=0.9)
        loose = self.where(inner, depth, source, tied=0.3)
        if self.chance(0.15):
            text, columns = self.subquery(depth, source)
            given = columns[0].text
            return f"{one} {self.rng.choice(['IN', 'NOT IN'])} (SELECT {given} FROM ({text}) AS {self.alias()})"
        return self.rng.choice(
            [
                f"EXISTS (SELECT FROM {inner.text}{tied})",
                f"NOT EXISTS (SELECT FROM {inner.text}{tied})",
                f"NOT EXISTS (SELECT FROM {inner.text}{tied})",
                f"{one} IN (SELECT {own} FROM {inner.text}{loose})",
                f"{one} NOT IN (SELECT {own} FROM {inner.text}{loose})",
                f"{one} < ANY (SELECT {own} FROM {inner.text}{loose})",
                f"{one} >= ALL (SELECT {own} FROM {inner.text}{loose})",
                f"({one}, {two}) IN (SELECT {own}, {self.int_column(inner)} FROM {inner.text}{loose})",
                f"{one} = (SELECT {self.count(inner)} FROM {inner.text}{tied})",
                f"{self.rng.randint(0, 2)} < (SELECT count(*) FROM {inner.text}{tied})",
            ]
        )
