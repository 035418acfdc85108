"""The checks of one run: asked in the transactions that write the mart, and once more at the end.

A check by row is asked of the rows that a batch has written, before its transaction commits: one that blocks undoes all
of it. A check of the whole mart blocks where a transaction publishes all there is (`publish: atomic`); others are asked
at the end of a run.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from psycopg import RawCursor, errors, sql
from psycopg.rows import dict_row

from vitrina.domain.checks import Answer, Check, said
from vitrina.domain.errors import DatabaseLost, FatalError, RetryableError, VitrinaError
from vitrina.domain.pipeline import Plan
from vitrina.domain.wording import Json
from vitrina.engine.asking import READ, SHOWN, Asked
from vitrina.meta.db import Connection, translated

Numbered: TypeAlias = list[tuple[int, Check]]


@dataclass(frozen=True)
class Outcome:
    """What came of asking a check once."""

    check: Check
    answer: Answer
    rows: int = 0
    keys: Sequence[Mapping[str, str]] = ()
    error: str = ""
    of_all: bool = False  # of the whole mart, rather than of the rows of a batch

    @property
    def said(self) -> str:
        """For people."""
        return said(self.answer, self.check.kind, self.rows, self.keys, self.error)

    def as_fields(self) -> dict[str, Json]:
        """For a line of the log."""
        found: dict[str, Json] = {"check": self.check.name, "effect": self.check.effect, "rows": self.rows}
        if self.keys:
            found["keys"] = [dict(key) for key in self.keys]
        return found | ({"error": self.error} if self.error else {})


class Blocked(FatalError):
    """Checks are broken that let nothing pass."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        found = "; ".join(f"check {outcome.check.name!r} {outcome.said}" for outcome in outcomes)
        super().__init__(
            f"{found}; nothing of this batch was published",
            "mend the source, or the check; with effect: warn it would be told, and published",
        )
        self.outcomes = outcomes


@dataclass(frozen=True)
class Standing:
    """How a check stood when it was asked last."""

    definition: str
    answer: Answer


@dataclass
class Checks:
    """Of one claim. What comes of them is taken, step by step, by whoever commits."""

    plan: Plan
    interrupted: Callable[[], None] = lambda: None  # raises when the run should stop
    judge: Callable[[Asked], None] = lambda _: None  # raises if the SQL of a check may not run
    standing: dict[str, Standing] = field(default_factory=dict)
    asked: Asked | None = None  # the mart, once it is known
    mart: sql.Composable | None = None  # all of it, where statements see it
    outcomes: list[Outcome] = field(default_factory=list)
    worst: dict[str, Answer] = field(default_factory=dict)  # of each check that rows were asked

    @property
    def by_row(self) -> Numbered:
        """Those that each row tells by itself."""
        return [(n, check) for n, check in enumerate(self.plan.checks) if check.is_by_row]

    def about(self, asked: Asked, mart: sql.Composable | None) -> None:
        """This mart; what is not its is refused, whoever wrote it."""
        for check in self.plan.checks:
            asked.require_columns(check)
        if asked != self.asked:
            self.judge(asked)
        self.asked, self.mart = asked, mart

    def of_rows(self, conn: Connection, rows: sql.Composable, args: Sequence[str | None]) -> None:
        """Rows that were written just now, before anybody sees them."""
        assert self.asked
        self._ask(conn, self.asked.by_row, rows, args, self.by_row, of_all=False)

    def before_commit(self, conn: Connection) -> None:
        """All of the mart, in a transaction that publishes all there is."""
        if self.plan.publish == "atomic":
            blocking = [(n, check) for n, check in self._whole if check.blocks]
            self._ask_all(conn, blocking)

    def at_the_end(self, conn: Connection) -> None:
        """All of the mart, for whoever can see it: what only all of it tells; and by row what is new, or was broken."""
        if self.mart is not None:
            self._ask_all(conn, [*self._whole, *((n, c) for n, c in self.by_row if self._is_open(c))], lets_pass=True)
        else:  # nobody can: rows that were written all keep it now
            kept = [check for _, check in self.by_row if self.worst.get(check.name) == "kept" and self._is_open(check)]
            self.outcomes += [Outcome(check, "kept", of_all=True) for check in kept]

    @property
    def has_open(self) -> bool:
        """Whether a look at the end would tell anything."""
        if self.mart is None:
            return any(self._is_open(check) for _, check in self.by_row)
        return bool(self._whole) or any(self._is_open(check) for _, check in self.by_row)

    def take(self) -> list[Outcome]:
        """What came of it since it was taken last; a Blocked if something may not pass."""
        found, self.outcomes = self.outcomes, []
        for outcome in found:
            if not outcome.of_all and self.worst.get(outcome.check.name) != "broken":
                self.worst[outcome.check.name] = outcome.answer
            if outcome.of_all or outcome.answer != "kept":
                self.standing[outcome.check.name] = Standing(definition_of(outcome.check), outcome.answer)
        if blocked := [outcome for outcome in found if outcome.answer == "blocked"]:
            raise Blocked(blocked)
        return found

    @property
    def _whole(self) -> Numbered:
        return [(n, check) for n, check in enumerate(self.plan.checks) if not check.is_by_row]

    def _is_open(self, check: Check) -> bool:
        before = self.standing.get(check.name)
        return before is None or before.definition != definition_of(check) or before.answer != "kept"

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────────────

    def _ask_all(self, conn: Connection, checks: Numbered, *, lets_pass: bool = False) -> None:
        assert self.asked
        if any(check.empty for _, check in checks):
            self.judge(self.asked)  # again: a view that it reads may have been replaced
        if self.mart is not None:
            self._ask(conn, self.asked.whole, self.mart, [], checks, of_all=True, lets_pass=lets_pass)

    def _ask(
        self,
        conn: Connection,
        make: Callable[[sql.Composable, Numbered], sql.Composed],
        rows: sql.Composable,
        args: Sequence[str | None],
        checks: Numbered,
        *,
        of_all: bool,
        lets_pass: bool = False,
    ) -> None:
        """All in one statement; if that fails, one by one, so that it is known which."""
        if not checks:
            return
        try:
            found = _read(conn, make(rows, checks), args)
        except VitrinaError as error:
            if len(checks) > 1:
                for each in checks:
                    self._ask(conn, make, rows, args, [each], of_all=of_all, lets_pass=lets_pass)
                return
            self._unasked(checks[0][1], error, of_all=of_all, lets_pass=lets_pass)
            return
        for n, check in checks:
            mine = [row for row in found if row["number"] == n]
            self.outcomes.append(_outcome(check, mine, of_all=of_all, lets_pass=lets_pass))

    def _unasked(self, check: Check, error: VitrinaError, *, of_all: bool, lets_pass: bool) -> None:
        """A check that fails to answer is not kept. What may pass, or is cut short by somebody, is not its fault."""
        self.interrupted()
        is_its_own = isinstance(error.__cause__, errors.QueryCanceled)  # it takes too long
        if isinstance(error, RetryableError | DatabaseLost) and not is_its_own:
            raise error
        answer: Answer = "blocked" if check.blocks and not lets_pass else "unasked"
        self.outcomes.append(Outcome(check, answer, error=error.message, of_all=of_all))


def _outcome(check: Check, rows: Sequence[Mapping[str, Any]], *, of_all: bool, lets_pass: bool) -> Outcome:
    if not rows:
        return Outcome(check, "kept", of_all=of_all)
    keys = [json.loads(row["shown"]) for row in rows[:SHOWN] if row["shown"]]
    answer: Answer = "blocked" if check.blocks and not lets_pass else "broken"
    return Outcome(check, answer, rows[0]["total"], keys, of_all=of_all)


def _read(conn: Connection, statement: sql.Composed, args: Sequence[str | None]) -> list[dict[str, Any]]:
    """As the reader, in a savepoint: what fails takes nothing with it."""
    with translated(), conn.transaction():
        cursor = RawCursor(conn, row_factory=dict_row)
        return cursor.execute(READ.as_bytes(conn), [statement.as_string(conn), list(args)]).fetchall()


def definition_of(check: Check) -> str:
    """In brief; whether it blocks or warns asks nothing new."""
    asked = check.model_dump(mode="json") | {"effect": "", "name": ""}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
