"""Ways to read a query for some keys, and which of them the planner finds cheapest.

Every way takes one argument: $1, an array of array literals, one for each key column. Which is best differs: a
restriction outside is pushed through GROUP BY, DISTINCT, PARTITION BY and UNION, but not across a join into a grouped
subquery or a view, nor through a FULL JOIN.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from psycopg import sql

from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.sql import grammar
from vitrina.sql.describe import Column
from vitrina.sql.live.ties import Tie

COMMA, AND = sql.SQL(", "), sql.SQL(" AND ")
SMALL = 10_000.0  # a query that costs less may as well be read whole
# What is not pushed down compares every row with every key, which the planner does not reckon: these two never do.
SAFE = ("each", "among")
LEAST_GAIN = 0.5  # a way that costs more than this share of the whole query spares nothing

PARAMETER = sql.SQL("$1::text[]")  # the keys: an array literal for each key column
Cost: TypeAlias = Callable[[sql.Composable, Sequence[str | None]], float]


@dataclass(frozen=True)
class Way:
    """One way to read the rows of some keys."""

    name: str  # outside | each | inside | among
    query: sql.Composed
    per_key: bool = False  # its price is that of one key, times the keys


@dataclass(frozen=True)
class Recompute:
    """The cheapest way for each number of keys; `reason` says why none of them is worth it, if so."""

    ways: Mapping[int, Way]
    reason: Because | None = None

    def way(self, keys: int) -> Way:
        """The way for about so many keys."""
        return self.ways[min(self.ways, key=lambda size: (abs(size - keys), size))]


def ways(
    select: str,
    columns: Sequence[Column],
    key: Sequence[str],
    ties: Sequence[Tie] = (),
    args: sql.Composable = PARAMETER,
) -> list[Way]:
    """Every way to read `select` for keys (or parts of keys: `key` names the columns that are given)."""
    found = [
        Way("outside", outside(select, columns, key, args)),
        Way("each", for_each(select, columns, key, args), per_key=True),
        Way("among", among(select, columns, key, args)),
    ]
    restricted = inside(select, columns, key, ties, args)
    return [*found, Way("inside", outside(restricted, columns, key, args))] if restricted else found


def outside(
    select: str, columns: Sequence[Column], key: Sequence[str], args: sql.Composable = PARAMETER
) -> sql.Composed:
    """`= ANY` around the query: what Postgres pushes down by itself in the simple cases."""
    arrays = _arrays(columns, key, args)
    wanted = [sql.SQL("q.{} = ANY ({})").format(sql.Identifier(k), a) for k, a in zip(key, arrays, strict=True)]
    if len(key) > 1:
        exact = sql.SQL("({}) IN (SELECT * FROM unnest({}))")
        wanted.append(exact.format(_names("q", key), COMMA.join(arrays)))
    text = "SELECT {} FROM (\n{}\n) AS q WHERE {}"
    return sql.SQL(text).format(_casts(columns), sql.SQL(select), AND.join(wanted))


def among(select: str, columns: Sequence[Column], key: Sequence[str], args: sql.Composable = PARAMETER) -> sql.Composed:
    """All of the query, hashed against the keys: never cheap, never much costlier than the query itself."""
    text = "SELECT {} FROM (\n{}\n) AS q WHERE ({}) IN (SELECT * FROM unnest({}))"
    arrays = COMMA.join(_arrays(columns, key, args))
    return sql.SQL(text).format(_casts(columns), sql.SQL(select), _names("q", key), arrays)


def for_each(
    select: str, columns: Sequence[Column], key: Sequence[str], args: sql.Composable = PARAMETER
) -> sql.Composed:
    """The query once for each key, as for a constant, which goes across joins too."""
    same = AND.join(sql.SQL("o.{0} = k.{0}").format(sql.Identifier(name)) for name in key)
    return sql.SQL(
        "SELECT {columns} FROM (SELECT DISTINCT * FROM unnest({arrays}) AS k ({names})) AS k"
        " CROSS JOIN LATERAL (SELECT o.* FROM (\n{select}\n) AS o WHERE {same} OFFSET 0) AS q"
    ).format(
        columns=_casts(columns),
        arrays=COMMA.join(_arrays(columns, key, args)),
        names=COMMA.join(map(sql.Identifier, key)),
        select=sql.SQL(select),
        same=same,
    )


def inside(
    select: str,
    columns: Sequence[Column],
    key: Sequence[str],
    ties: Sequence[Tie],
    args: sql.Composable = PARAMETER,
) -> str:
    """The query with the restriction put into the subqueries, CTEs and views that are tied to the key, or nothing."""
    wanted = [tie for tie in ties if tie.key in key]
    tree = grammar.parse(select)
    arrays = dict(zip(key, _arrays(columns, key, args), strict=True))
    done = [_restrict(tree.stmts[0].stmt.select_stmt.from_clause, tie, arrays[tie.key]) for tie in wanted]
    return grammar.deparse(tree) if any(done) else ""


def choose_recompute(
    cost: Cost, found: Sequence[Way], whole: sql.Composable, samples: Mapping[int, Sequence[str | None]]
) -> Recompute:
    """The cheapest way for each number of keys. `samples` are arguments with so many real keys."""
    everything, fewest = cost(whole, ()), min(samples)
    bound = max(SMALL, LEAST_GAIN * everything)
    sparing = [way for way in found if way.name in SAFE or cost(way.query, samples[fewest]) <= bound]
    chosen: dict[int, Way] = {}
    prices: dict[int, float] = {}
    for size in samples:
        priced = [(_price(cost, way, size, samples), way) for way in sparing]
        prices[size], chosen[size] = min(priced, key=lambda pair: pair[0])
    if prices[fewest] > bound:
        return Recompute(chosen, Reason.NOT_FOR_SOME.of(cost=prices[fewest], keys=fewest, whole=everything))
    return Recompute(chosen)


def _price(cost: Cost, way: Way, size: int, samples: Mapping[int, Sequence[str | None]]) -> float:
    """What a way costs for so many keys. The planner takes thousands of distinct keys for 200, so `each` is scaled."""
    if not way.per_key:
        return cost(way.query, samples[size])
    fewest = min(samples)
    return cost(way.query, samples[fewest]) * size / fewest


def _restrict(items: Any, tie: Tie, array: sql.Composed) -> bool:
    """Put a restriction around the item of a tie, wherever in the joins it stands."""
    for item in items:
        kind = item.WhichOneof("node")
        if kind == "join_expr":
            if _restrict([item.join_expr.larg], tie, array) or _restrict([item.join_expr.rarg], tie, array):
                return True
        elif kind in ("range_var", "range_subselect") and _alias(item) == tie.alias:
            _wrap(item, tie, array)
            return True
    return False


def _alias(item: Any) -> str:
    node = getattr(item, item.WhichOneof("node"))
    return str(node.alias.aliasname or getattr(node, "relname", ""))


def _wrap(item: Any, tie: Tie, array: sql.Composed) -> None:
    alias, column = sql.Identifier(tie.alias), sql.Identifier(tie.alias, tie.column)
    text = sql.SQL("SELECT * FROM (SELECT * FROM x WHERE {} = ANY ({})) AS {}").format(column, array, alias)
    outer = grammar.parse(text.as_string(None)).stmts[0].stmt.select_stmt.from_clause[0]
    outer.range_subselect.subquery.select_stmt.from_clause[0].CopyFrom(item)
    item.CopyFrom(outer)


def _casts(columns: Sequence[Column]) -> sql.Composed:
    """The columns in the described types: a domain is described as its base type."""
    text = sql.SQL("q.{0}::{1} AS {0}")
    return COMMA.join(text.format(column.identifier, column.sql_type) for column in columns)


def _names(alias: str, key: Sequence[str]) -> sql.Composed:
    return COMMA.join(sql.Identifier(alias, name) for name in key)


def _arrays(columns: Sequence[Column], key: Sequence[str], args: sql.Composable) -> list[sql.Composed]:
    types = {column.name: column.unbounded_type for column in columns}
    text = sql.SQL("({})[{}]::{}[]")
    return [text.format(args, sql.SQL(str(at)), sql.SQL(types[name])) for at, name in enumerate(key, 1)]
