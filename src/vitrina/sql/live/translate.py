"""From the server's nodes to expressions: what is not known for certain, or could fail on a row, becomes Opaque."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from vitrina.domain.reasons import Reason
from vitrina.sql.live.catalog import BOOL, BPCHAR, INT2, INT4, INT8, NAME, OID, TEXTS, UUID, Catalog
from vitrina.sql.live.exprs import Call, Const, Expr, Opaque
from vitrina.sql.live.nodes import Node

NUMBERS = {INT2: 2, INT4: 4, INT8: 8, OID: 4}
DIVISIONS = ("/", "%")
DIVISORS = {INT2, INT4, INT8, 700, 701, 1700}  # types that have a zero, floats and numeric included
EQUALS = ("pg_catalog", "=")
TESTS = ("true", "not true", "false", "not false", "null", "not null")  # of IS …, by booltesttype


class Scope(Protocol):
    """Where an expression stands."""

    def column(self, node: Node) -> Expr:
        """What a Var means here."""

    def sublink(self, node: Node) -> Expr:
        """A subquery inside an expression."""


@dataclass
class Translator:
    """Translates the expressions of one place."""

    catalog: Catalog
    scope: Scope
    _tested: list[Expr] = field(default_factory=list)  # what CASE x WHEN … compares
    parameters: Callable[[Node], Expr] | None = None  # the columns of the subquery of IN

    def expr(self, node: Node) -> Expr:
        """The expression of a node."""
        known = getattr(self, f"_{node.kind.lower()}", None)
        return known(node) if known else self._unknown(node, Reason.UNKNOWN_EXPRESSION)

    def exprs(self, nodes: Sequence[Node]) -> tuple[Expr, ...]:
        """Several."""
        return tuple(self.expr(node) for node in nodes)

    def _unknown(self, node: Node, reason: Reason) -> Opaque:
        for child in node.children():
            self.expr(child)  # for the subqueries inside
        return Opaque(reason.of())

    def _query(self, _node: Node) -> Expr:
        return Opaque(Reason.A_SUBQUERY.of())

    def _var(self, node: Node) -> Expr:
        return self.scope.column(node)

    def _sublink(self, node: Node) -> Expr:
        return self.scope.sublink(node)

    def _aggref(self, node: Node) -> Expr:
        return self._unknown(node, Reason.AGGREGATE)

    def _windowfunc(self, node: Node) -> Expr:
        return self._unknown(node, Reason.WINDOW)

    def _param(self, node: Node) -> Expr:
        return self.parameters(node) if self.parameters else Opaque(Reason.PARAMETER.of())

    def _const(self, node: Node) -> Expr:
        type_ = node.number("consttype")
        if node.flag("constisnull"):
            return Const(None, type_)
        text = _decode(type_, bytes(node.items("constvalue")), self.catalog.encoding)
        return Opaque(Reason.CONSTANT.of(type=self.catalog.types[type_])) if text is None else Const(text, type_)

    def _opexpr(self, node: Node) -> Expr:
        operator = self.catalog.operators[node.number("opno")]
        args = self.exprs(node.items("args"))
        if operator.name in DIVISIONS:
            args = (args[0], _never_zero(args[-1], operator.right))
        equality = operator.equality and operator.name == "="
        exact = equality and operator.left == operator.right and operator.left in self.catalog.exact
        name = (operator.schema, operator.name)
        type_ = node.number("opresulttype")
        return Call("operator", name, args, type_, operator.strict, equality, exact)

    def _nullifexpr(self, node: Node) -> Expr:
        """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END."""
        equal = self._opexpr(node)
        if not isinstance(equal, Call):
            return equal
        type_ = node.number("opresulttype")
        return Call("case", (), (replace(equal, type=BOOL), Const(None, type_), equal.args[0]), type_)

    def _distinctexpr(self, node: Node) -> Expr:
        """IS DISTINCT FROM, in words that know NULL: where one side is, the other is not, or they are unequal."""
        equal = self._opexpr(node)
        if not isinstance(equal, Call):
            return equal
        one, other = equal.args
        unequal = Call("coalesce", (), (Call("not", (), (equal,), BOOL, strict=True), Const("true", BOOL)), BOOL)
        missing, given = Call("is null", (), (one,), BOOL), Call("is not null", (), (other,), BOOL)
        return Call("case", (), (missing, given, unequal), BOOL)

    def _booleantest(self, node: Node) -> Expr:
        """IS TRUE and its kin: COALESCE with what NULL counts as."""
        arg, test = self.expr(node["arg"]), TESTS[node.number("booltesttype")]
        if test.endswith("null"):
            return Call(f"is {test}", (), (arg,), BOOL)
        unknown = Const("true" if test in ("false", "not false") else "false", BOOL)
        filled = Call("coalesce", (), (arg, unknown), BOOL)
        return filled if test in ("true", "not false") else Call("not", (), (filled,), BOOL, strict=True)

    def _funcexpr(self, node: Node) -> Expr:
        if node.flag("funcretset"):
            return self._unknown(node, Reason.SEVERAL_ROWS)
        function = self.catalog.functions[node.number("funcid")]
        form = "variadic" if node.flag("funcvariadic") else "function"
        args, type_ = self.exprs(node.items("args")), node.number("funcresulttype")
        return Call(form, (function.schema, function.name), args, type_, function.strict)

    def _relabeltype(self, node: Node) -> Expr:
        return Call("cast", (), (self.expr(node["arg"]),), node.number("resulttype"), strict=True)

    def _coerceviaio(self, node: Node) -> Expr:
        arg, type_ = self.expr(node["arg"]), node.number("resulttype")
        if type_ not in TEXTS:
            return Opaque(Reason.CAST_MAY_FAIL.of())
        return Call("cast", ("as text",), (arg,), type_, strict=True)

    def _coalesceexpr(self, node: Node) -> Expr:
        return Call("coalesce", (), self.exprs(node.items("args")), node.number("coalescetype"))

    def _minmaxexpr(self, node: Node) -> Expr:
        form = "least" if node.number("op") else "greatest"
        return Call(form, (), self.exprs(node.items("args")), node.number("minmaxtype"))

    def _boolexpr(self, node: Node) -> Expr:
        form = str(node["boolop"])
        return Call(form, (), self.exprs(node.items("args")), BOOL, strict=form == "not")

    def _nulltest(self, node: Node) -> Expr:
        if node.flag("argisrow"):
            return self._unknown(node, Reason.TEST_OF_A_ROW)
        return Call("is not null" if node.number("nulltesttype") else "is null", (), (self.expr(node["arg"]),), BOOL)

    def _scalararrayopexpr(self, node: Node) -> Expr:
        operator = self.catalog.operators[node.number("opno")]
        form = "any" if node.flag("useOr") else "all"
        args, strict = self.exprs(node.items("args")), operator.strict and form == "any"
        return Call(form, (operator.schema, operator.name), args, BOOL, strict)

    def _caseexpr(self, node: Node) -> Expr:
        if node["arg"] is not None:
            self._tested.append(self.expr(node["arg"]))
        args: list[Expr] = []
        for when in node.items("args"):
            args += [self.expr(when["expr"]), self.expr(when["result"])]
        if node["arg"] is not None:
            self._tested.pop()
        type_ = node.number("casetype")
        otherwise = self.expr(node["defresult"]) if node["defresult"] is not None else Const(None, type_)
        return Call("case", (), (*args, otherwise), type_)

    def _casetestexpr(self, _node: Node) -> Expr:
        return self._tested[-1] if self._tested else Opaque(Reason.UNKNOWN_EXPRESSION.of())


def _never_zero(divisor: Expr, type_: int) -> Expr:
    """A divisor that is NULL instead of zero: a row on which the query would fail has no key."""
    if isinstance(divisor, Const) and divisor.text not in (None, "0", "-1"):
        return divisor
    if type_ not in DIVISORS or isinstance(divisor, Const):
        return Opaque(Reason.DIVISION_MAY_FAIL.of())
    is_zero = Call("operator", EQUALS, (divisor, Const("0", type_)), BOOL, strict=True)
    return Call("case", (), (is_zero, Const(None, type_), divisor), type_)


def _decode(type_: int, datum: bytes, encoding: str) -> str | None:
    """A constant's text, for the types whose form in memory is plain; the server's numbers are little-endian."""
    if type_ == BOOL:
        return "true" if datum[0] else "false"
    if type_ in NUMBERS:
        number = int.from_bytes(datum[: NUMBERS[type_]], "little", signed=type_ != OID)
        return str(number)
    if type_ == UUID and len(datum) == 16:
        return datum.hex()
    if type_ in TEXTS and type_ not in (NAME, BPCHAR):
        return _text(datum, encoding)
    return None


def _text(datum: bytes, encoding: str) -> str | None:
    if datum[0] & 3 or int.from_bytes(datum[:4], "little") >> 2 != len(datum):
        return None
    try:
        return datum[4:].decode(encoding)
    except UnicodeDecodeError:
        return None
