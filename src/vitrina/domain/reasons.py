"""Reasons: why a run reads as it reads, why a change means what it means. Codes are listed in docs/reference.md."""

from collections.abc import Mapping
from typing import Any

from vitrina.domain.wording import Because, Json, Worded


class Reason(Worded):
    """The code, and the words for people; some have another reason among their data."""

    # how a query is read
    OTHER_SERVER = "other_server", "source {source} is another server"
    THROUGH_PYTHON = "through_python", "rows go through Python"
    SEALED = "sealed", "the mart has code of somebody's own"
    KEY_OF_ANOTHER_TYPE = "key_of_another_type", "the mart's key has another type or a collation of its own"
    REBUILD = "rebuild", "a rebuild writes every row anew"
    ATOMIC = "atomic", "publish is atomic"
    KEY_NOT_PUSHED = (
        "key_not_pushed",
        "the key cannot be pushed into the query: {batches} batches at cost {by_batch:,.0f} against {whole:,.0f} for"
        " reading it once",
    )
    # why a change of a table may touch any key
    KEYS_UNTOLD = "keys_untold", "the keys of a change cannot be told: {error}"
    OTHER_MEANING = (
        "other_meaning",
        "the query means something else now: a view or a function that it uses was replaced",
    )
    UPHEAVAL = "upheaval", "{table} was truncated, rewritten or altered"
    LARGE_VALUE_UNTOLD = "large_value_untold", "{table} was changed beside a large value that is not told"
    NOT_FOR_SOME = (
        "not_for_some",
        "the query cannot be read for some keys only (cost {cost:,.0f} for {keys}, {whole:,.0f} for all), so every"
        " change means a full comparison",
    )
    EVERYTHING = "everything", "a change in {table} refreshes everything: {reason}"
    OLD_VALUE_UNTOLD = (
        "old_value_untold",
        "a change in {table} refreshes everything: the old value of {columns} is not told;"
        " ALTER TABLE {table} REPLICA IDENTITY FULL mends that",
    )
    DEPENDS_ON = "depends_on", "{column} depends on {reason}"
    TOO_MANY_JOINS = "too_many_joins", "{columns} is put together from too many outer joins"
    SUBQUERY_HAS = "subquery_has", "the subquery it is in has {reason}"
    SUBQUERY_UNTIED = "subquery_untied", "the subquery it is in is not tied to {columns}"
    UNTIED = "untied", "no condition ties it to {columns}"
    TOO_MANY_BRANCHES = "too_many_branches", "the query has too many UNION branches to follow"
    READ_UNFOLLOWED = "read_unfollowed", "it is read where nothing is followed"
    NEVER_A_KEY = "never_a_key", "its rows never have a key"
    CIRCLE = "circle", "its way to the key leads through rows that themselves find the key through it"
    LOOSE = "loose", "which rows there are depends on {reason}: cast before they are grouped"
    TIED = (
        "tied",
        "of rows that tie in an ORDER BY any may be taken, and the query decides by them which rows there are: end the"
        " ORDER BY with a unique column",
    )
    # what cannot be followed
    AGGREGATE = "aggregate", "the result of an aggregate"
    WINDOW = "window", "the result of a window function"
    SUBQUERY = "subquery", "the result of a subquery"
    COMPUTED_WITH_LOOSE = (
        "computed_with_loose",
        "a computation on values that can be equal and look different (1.0, 1.00)",
    )
    WHOLE_ROW = "whole_row", "a whole row"
    WHOLE_ROW_OF_A_JOIN = "whole_row_of_a_join", "a whole row of a join"
    TEST_OF_A_ROW = "test_of_a_row", "a test of a whole row"
    UNKNOWN_VALUE = "unknown_value", "a value that cannot be followed"
    UNKNOWN_EXPRESSION = "unknown_expression", "an expression that cannot be followed"
    GIVEN_BY_A_FUNCTION = "given_by_a_function", "a value that a function or a list gives"
    SEVERAL_ROWS = "several_rows", "a function that gives several rows"
    LEFT_EMPTY = "left_empty", "a value that an outer join may leave empty"
    OTHER_TYPES = "other_types", "branches of different types"
    GENERATED = "generated", "the generated column {column}"
    PARAMETER = "parameter", "a parameter"
    A_SUBQUERY = "a_subquery", "a subquery"
    CONSTANT = "constant", "a constant of type {type}"
    CAST_MAY_FAIL = "cast_may_fail", "a cast that could fail on rows that the query leaves out"
    DIVISION_MAY_FAIL = "division_may_fail", "a division, which could fail on rows that the query leaves out"
    GROUPING_SETS = "grouping_sets", "ROLLUP, CUBE or GROUPING SETS, where a row counts in several groups"
    LIMITED = "limited", "LIMIT or OFFSET, where any row may push out another"
    OVER_ALL = "over_all", "an aggregate over all rows"
    OTHER_PARTITION = "other_partition", "a window that is not partitioned by it"
    OTHER_DISTINCT = "other_distinct", "DISTINCT ON other columns"

    def of(self, **data: Json) -> Because:
        """This reason, here."""
        return Because(self, data)


COMPUTED = (Reason.AGGREGATE, Reason.WINDOW, Reason.SUBQUERY)  # from many rows: by itself that is little news
REASONS = {reason.value: reason for reason in Reason}


def as_kept(value: Json) -> Json:
    """For programs: a reason by its code, with what it says in English."""
    if isinstance(value, Because):
        return {"code": value.code.value, "data": as_kept(value.data), "message": str(value)}
    return {name: as_kept(item) for name, item in value.items()} if isinstance(value, Mapping) else value


def revived(value: Any) -> Any:
    """What was kept, with its reasons again; those of another program by their words."""
    if not isinstance(value, Mapping):
        return value
    data = {name: revived(item) for name, item in value.items()}
    if not isinstance(value.get("data"), Mapping) or "code" not in value:
        return data
    code = REASONS.get(value["code"])
    return Because(code, data["data"]) if code else value.get("message", "")
