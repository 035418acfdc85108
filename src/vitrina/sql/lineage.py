"""Where the columns of a SELECT come from: table columns, followed through joins, subqueries and CTEs.

What a column is computed from, not how: a name that cannot be resolved (a function's output, a whole row) simply
has no source. Nothing here decides anything; it is for people to look at.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vitrina.sql import grammar

Sources: TypeAlias = frozenset[str]
Relation: TypeAlias = dict[str, Sources]  # column -> sources
Catalog: TypeAlias = Callable[[str, str], list[str]]  # schema, table -> columns

NOTHING: Sources = frozenset()


@dataclass
class Scope:
    """The relations that a query's expressions can name, and the scope around it."""

    relations: dict[str, Relation] = field(default_factory=dict)
    ctes: Mapping[str, Relation] = field(default_factory=dict)
    outer: "Scope | None" = None

    def find(self, names: list[str]) -> Sources:
        """The sources of `column` or `relation.column`."""
        if len(names) >= 2 and names[-2] in self.relations:
            return self.relations[names[-2]].get(names[-1], NOTHING)
        if len(names) == 1:
            found = [columns[names[0]] for columns in self.relations.values() if names[0] in columns]
            if found:
                return NOTHING.union(*found)
        return self.outer.find(names) if self.outer else NOTHING


def tables_of(select: str, ctes: bool = False) -> list[str]:
    """The tables that a SELECT reads, as schema.table."""
    tree = grammar.parse(select)
    found = (node for _, node in grammar.walk(tree) if type(node).__name__ == "RangeVar")
    return sorted({f"{node.schemaname}.{node.relname}" for node in found if node.schemaname or ctes})


def trace(select: str, catalog: Catalog) -> Relation:
    """Each output column with the table columns it is computed from."""
    statement = grammar.parse(select).stmts[0].stmt.select_stmt
    return _select(statement, catalog, Scope())


def _select(statement: Any, catalog: Catalog, outer: Scope) -> Relation:
    ctes = dict(outer.ctes)
    for item in statement.with_clause.ctes:
        cte = item.common_table_expr
        ctes[cte.ctename] = {}  # a recursive reference adds nothing new
        columns = _select(cte.ctequery.select_stmt, catalog, Scope(ctes=ctes, outer=outer))
        ctes[cte.ctename] = _renamed(columns, [name.string.sval for name in cte.aliascolnames])
    if statement.HasField("larg"):
        left, right = (
            _select(side, catalog, Scope(ctes=ctes, outer=outer)) for side in (statement.larg, statement.rarg)
        )
        return {name: own | other for (name, own), other in zip(left.items(), right.values(), strict=False)}
    scope = Scope(ctes=ctes, outer=outer)
    for item in statement.from_clause:
        _add_relation(item, catalog, scope)
    return dict(_outputs(statement, catalog, scope))


def _add_relation(item: Any, catalog: Catalog, scope: Scope) -> None:
    if item.HasField("join_expr"):
        _add_relation(item.join_expr.larg, catalog, scope)
        _add_relation(item.join_expr.rarg, catalog, scope)
    elif item.HasField("range_var"):
        table = item.range_var
        name = table.alias.aliasname or table.relname
        if not table.schemaname and table.relname in scope.ctes:
            scope.relations[name] = dict(scope.ctes[table.relname])
        else:
            where = f"{table.schemaname}.{table.relname}"
            columns = catalog(table.schemaname, table.relname)
            scope.relations[name] = {column: frozenset([f"{where}.{column}"]) for column in columns}
    elif item.HasField("range_subselect"):
        sub = item.range_subselect
        columns_ = _select(sub.subquery.select_stmt, catalog, Scope(ctes=scope.ctes, outer=scope))
        scope.relations[sub.alias.aliasname] = _renamed(columns_, [n.string.sval for n in sub.alias.colnames])


def _outputs(statement: Any, catalog: Catalog, scope: Scope) -> Iterator[tuple[str, Sources]]:
    for item in statement.target_list:
        target = item.res_target
        names = _names(target.val)
        if names and names[-1] == "*":
            wanted = [scope.relations.get(names[0], {})] if len(names) > 1 else list(scope.relations.values())
            for relation in wanted:
                yield from relation.items()
        else:
            yield (
                target.name or (names[-1] if names else _implied_name(target.val)),
                _of_expression(item, catalog, scope),
            )


def _of_expression(node: Any, catalog: Catalog, scope: Scope) -> Sources:
    found: set[str] = set()
    for _, part in grammar.walk(node):
        kind = type(part).__name__
        if kind == "ColumnRef":
            found |= scope.find([f.string.sval for f in part.fields if f.HasField("string")])
        elif kind == "SelectStmt":
            inner = _select(part, catalog, Scope(ctes=scope.ctes, outer=scope))
            found |= NOTHING.union(*inner.values())
    return frozenset(found)


def _names(value: Any) -> list[str]:
    if not value.HasField("column_ref"):
        return []
    return [f.string.sval if f.HasField("string") else "*" for f in value.column_ref.fields]


def _implied_name(value: Any) -> str:
    """As Postgres names a column without AS."""
    if value.HasField("func_call"):
        return str(value.func_call.funcname[-1].string.sval)
    if value.HasField("type_cast"):
        names = _names(value.type_cast.arg)
        return names[-1] if names else str(value.type_cast.type_name.names[-1].string.sval)
    return {"coalesce_expr": "coalesce", "case_expr": "case", "min_max_expr": "greatest"}.get(
        value.WhichOneof("node"), ""
    )


def _renamed(columns: Relation, names: list[str]) -> Relation:
    kept = list(columns.items())
    return {(names[i] if i < len(names) else name): sources for i, (name, sources) in enumerate(kept)}
