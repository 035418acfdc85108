"""Expressions over table columns: which rows they need, when they are NULL, and how they read as SQL."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from psycopg import sql

from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because

NONE: frozenset[str] = frozenset()
COMMA = sql.SQL(", ")


@dataclass(frozen=True)
class Ref:
    """A column of an item of some block's FROM; item 0: an output of the block itself."""

    block: str
    item: int
    number: int
    type: int


@dataclass(frozen=True)
class Col:
    """A column of a table occurrence."""

    place: str
    name: str
    type: int
    required: bool = False


@dataclass(frozen=True)
class Const:
    """A value written out; None is NULL."""

    text: str | None
    type: int


@dataclass(frozen=True)
class Call:
    """An operator, a function or a construct. `strict`: NULL as soon as one argument is."""

    form: str  # of (its row is there) | operator | function | variadic | cast | coalesce | case | greatest | …
    name: tuple[str, ...]
    args: tuple["Expr", ...]
    type: int
    strict: bool = False
    equality: bool = False  # what a btree calls equal
    exact: bool = False  # an equality whose sides are then the same value


@dataclass(frozen=True)
class Opaque:
    """What cannot be followed, and why."""

    reason: Because


@dataclass(frozen=True)
class Loose:
    """One of several values that are equal without being the same: good to compare, not to compute with."""

    value: "Expr"

    @property
    def type(self) -> int:
        """The type of the value."""
        return self.value.type if not isinstance(self.value, Opaque) else 0


@dataclass(frozen=True)
class Row:
    """True where an occurrence has a row, NULL where an outer join left it out: what `of` is strict in."""

    place: str
    type: int = 16


Expr: TypeAlias = Ref | Col | Const | Call | Opaque | Loose | Row

COMPUTED_WITH_LOOSE = Reason.COMPUTED_WITH_LOOSE.of()


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly below."""
    if isinstance(expr, Call):
        return expr.args
    return (expr.value,) if isinstance(expr, Loose) else ()


def transform(expr: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """The expression with its leaves replaced; Loose may stand only on top or directly under an equality."""
    if isinstance(expr, Call):
        args = tuple(transform(arg, leaf) for arg in expr.args)
        if not expr.equality and any(isinstance(arg, Loose) for arg in args):
            return Opaque(COMPUTED_WITH_LOOSE)
        return replace(expr, args=tuple(bare(arg) for arg in args))
    return leaf(expr)


def bare(expr: Expr) -> Expr:
    """Without Loose around it."""
    return expr.value if isinstance(expr, Loose) else expr


def places(expr: Expr) -> frozenset[str]:
    """The table occurrences whose columns it needs."""
    return frozenset([expr.place]) if isinstance(expr, Col | Row) else NONE.union(*map(places, parts(expr)))


def columns(expr: Expr) -> frozenset[Col]:
    """The columns it needs."""
    return frozenset([expr]) if isinstance(expr, Col) else frozenset[Col]().union(*map(columns, parts(expr)))


def obstacle(expr: Expr) -> Because | None:
    """Why it cannot be computed from columns; None when it can."""
    if isinstance(expr, Opaque):
        return expr.reason
    return next((reason for reason in map(obstacle, parts(expr)) if reason), None)


def is_null(expr: Expr) -> bool:
    """Whether it is NULL whatever the rows are."""
    if isinstance(expr, Const):
        return expr.text is None
    if isinstance(expr, Call) and expr.args:
        nulls = [is_null(arg) for arg in expr.args]
        return any(nulls) if expr.strict and expr.form != "any" else expr.form == "coalesce" and all(nulls)
    return isinstance(expr, Loose) and is_null(expr.value)


def null_without(expr: Expr) -> frozenset[str]:
    """The occurrences without whose row the expression is NULL."""
    if isinstance(expr, Col | Row):
        return frozenset([expr.place])
    if not parts(expr):
        return NONE
    found = [null_without(part) for part in parts(expr)]
    if isinstance(expr, Loose) or (isinstance(expr, Call) and expr.strict and expr.form != "any"):
        return NONE.union(*found)
    if isinstance(expr, Call) and expr.form in ("coalesce", "and", "or", "greatest", "least"):
        return frozenset.intersection(*found)
    return NONE


def untrue_without(expr: Expr) -> frozenset[str]:
    """The occurrences without whose row a condition is not true (R2)."""
    if isinstance(expr, Call):
        if expr.form == "and":
            return NONE.union(*map(untrue_without, expr.args))
        if expr.form == "or":
            return frozenset.intersection(*map(untrue_without, expr.args))
        if expr.form == "is not null":
            return null_without(expr.args[0])
        if expr.form == "any":
            return NONE.union(*map(null_without, expr.args)) if expr.strict else NONE
    return null_without(expr)


def strip(expr: Expr) -> Expr:
    """Without casts that change nothing but the type's name."""
    while isinstance(expr, Call) and expr.form == "cast" and not expr.name:
        expr = expr.args[0]
    return bare(expr)


def simplify(expr: Expr) -> Expr:
    """COALESCE without what is NULL or said twice; what is there with a row that is not, as NULL."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(map(simplify, expr.args))
    if expr.form == "of" and any(map(is_null, args)):
        return Const(None, expr.type)
    if expr.form == "coalesce":
        args = tuple(dict.fromkeys(arg for arg in args if not is_null(arg)))
        if len(args) < 2:
            return args[0] if args else Const(None, expr.type)
    return replace(expr, args=args)


def without(expr: Expr, missing: frozenset[str]) -> Expr:
    """The expression where some occurrences have no row."""

    def leaf(part: Expr) -> Expr:
        return Const(None, part.type) if isinstance(part, Col | Row) and part.place in missing else part

    return simplify(transform(bare(expr), leaf)) if missing else bare(expr)


def conjuncts(expr: Expr) -> Iterable[Expr]:
    """The conditions that AND joins."""
    if isinstance(expr, Call) and expr.form == "and":
        for arg in expr.args:
            yield from conjuncts(arg)
    else:
        yield expr


@dataclass(frozen=True)
class Writer:
    """Writes expressions as SQL, with the aliases of the occurrences."""

    aliases: Mapping[str, str]
    types: Mapping[int, str]

    def write(self, expr: Expr) -> sql.Composable:
        """The SQL of an expression that has no obstacle."""
        if isinstance(expr, Col):
            return sql.Identifier(self.aliases[expr.place], expr.name)
        if isinstance(expr, Const):
            value = sql.SQL("NULL") if expr.text is None else sql.Literal(expr.text)
            return sql.SQL("{}::{}").format(value, self.type(expr.type))
        if isinstance(expr, Loose):
            return self.write(expr.value)
        assert isinstance(expr, Call), expr
        if expr.form == "of":
            return self.write(expr.args[0])
        return self._call(expr, [self.write(arg) for arg in expr.args])

    def type(self, oid: int) -> sql.SQL:
        """A type's name, as the server gives it."""
        return sql.SQL(self.types[oid])

    def _call(self, call: Call, args: list[sql.Composable]) -> sql.Composable:
        if call.form in ("operator", "any", "all"):
            return self._operator(call, args)
        if call.form in ("function", "variadic"):
            last = [sql.SQL("VARIADIC ") + args[-1]] if call.form == "variadic" else args[-1:]
            return sql.SQL("{}({})").format(sql.Identifier(*call.name), COMMA.join([*args[:-1], *last]))
        if call.form == "cast":
            return sql.SQL("({})::{}").format(args[0], self.type(call.type))
        if call.form in ("and", "or"):
            return sql.SQL("({})").format(sql.SQL(f" {call.form.upper()} ").join(args))
        if call.form in ("is null", "is not null"):
            return sql.SQL("({} {})").format(args[0], sql.SQL(call.form.upper()))
        if call.form == "not":
            return sql.SQL("(NOT {})").format(args[0])
        if call.form == "case":
            return self._case(args)
        return sql.SQL("{}({})").format(sql.SQL(call.form.upper()), COMMA.join(args))

    def _operator(self, call: Call, args: list[sql.Composable]) -> sql.Composable:
        schema, name = call.name
        operator = sql.SQL("OPERATOR({}.{})").format(sql.Identifier(schema), sql.SQL(name))
        if call.form != "operator":
            right = sql.SQL("{} ({})").format(sql.SQL(call.form.upper()), args[1])
            return sql.SQL("({} {} {})").format(args[0], operator, right)
        return sql.SQL("({})").format(sql.SQL(" ").join([*args[:-1], operator, args[-1]]))

    def _case(self, args: list[sql.Composable]) -> sql.Composable:
        *branches, otherwise = args
        whens = [sql.SQL("WHEN {} THEN {}").format(*pair) for pair in zip(branches[::2], branches[1::2], strict=True)]
        return sql.SQL("CASE {} ELSE {} END").format(sql.SQL(" ").join(whens), otherwise)
