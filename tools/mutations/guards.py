"""The guards that can be taken out, each by one small edit, and the tests that must notice.

`anchor` is the guard's own text, which must be in the file exactly once: a guard that moves is found missing.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLAIMS, LATE = "tests/integration/test_claims.py", "tests/integration/test_late_commits.py"
INCREMENTAL, MARTS = "tests/integration/test_incremental.py", "tests/integration/test_marts.py"
CORPORA, CALLS = "tests/security/test_corpora.py", "tests/integration/test_calls.py"
RACES = "tests/integration/test_dependency_races.py"
GENERATIONS = "tests/integration/test_index_generations.py"
CHECKS, HOSTILE = "tests/integration/test_checks.py", "tests/security/test_checks.py"
CONTINUITY, INDEX = "tests/integration/test_capture_continuity.py", "tests/faults/test_index.py"


@dataclass(frozen=True)
class Guard:
    """What is taken out, where, and who should notice."""

    name: str
    file: str  # below src/vitrina
    anchor: str
    without: str
    tests: tuple[str, ...]

    def remove(self, package: Path) -> None:
        """From a copy of the package; a ValueError if the guard is not where it was."""
        path = package / self.file
        text = path.read_text()
        if text.count(self.anchor) != 1:
            found = text.count(self.anchor)
            raise ValueError(
                f"the guard {self.name!r} is {found} times in {self.file}, not once: bring its anchor up to date"
            )
        path.write_text(text.replace(self.anchor, self.without))


GUARDS = [
    Guard(
        "the fence",
        "meta/queries/state.sql",
        "WHERE pipeline_id = %(pipeline_id)s AND epoch = %(epoch)s AND seq = %(seq)s",
        "WHERE pipeline_id = %(pipeline_id)s",
        (f"{CLAIMS}::test_a_zombie_can_neither_write_nor_finish_nor_renew",),
    ),
    Guard(
        "the check that blocks",
        "engine/checks.py",
        "raise Blocked(blocked)",
        "pass",
        (f"{CHECKS}::test_a_batch_that_breaks_a_check_is_not_published_and_its_keys_are_named",),
    ),
    Guard(
        "the guard's look at what a check calls",
        "engine/checks.py",
        "if asked != self.asked:",
        "if False:",
        (f"{HOSTILE}::test_a_hostile_check_is_refused_when_it_is_saved_and_when_it_is_run",),
    ),
    Guard(
        "the tie-breaker",
        "engine/query.py",
        'sql.SQL("({}, {}) {} ({}, {})").format(value, tie, self._operator(cursor, ">"), *position)',
        'sql.SQL("{} > {}").format(value, position[0])',
        (f"{INCREMENTAL}::test_a_runner_killed_among_them_loses_none_and_repeats_none",),
    ),
    Guard(
        "the pinned search_path",
        "meta/db.py",
        '"search_path": SEARCH_PATH,',
        '"search_path": "public, pg_catalog",',
        ("tests/security/test_paths.py::test_a_run_calls_nothing_that_others_put_in_its_way",),
    ),
    Guard(
        "the origin of the tree",
        "sql/tree.py",
        "if len(trees) != 1 or not held:",
        "if len(trees) != 1:",
        ("tests/security/test_trees.py::test_a_forged_tree_is_not_believed",),
    ),
    Guard(
        "the owner of an extension's function",
        "sql/calls.py",
        "AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.proowner AND r.rolsuper)",
        "",
        ("tests/security/test_extensions.py::test_what_was_added_to_it_does_not",),
    ),
    Guard(
        "the code of a mart's owner",
        "engine/sealing.py",
        "    for code in found:\n",
        "    for code in found[:0]:\n",
        ("tests/security/test_owners.py::test_code_of_a_marts_owner_does_not_run_as_the_runner",),
    ),
    Guard(
        "the role of a trusted owner's code",
        "engine/sealing.py",
        "    return True\n",
        "    return False\n",
        ("tests/security/test_sealed.py::test_a_live_mart_is_followed_as_the_writer",),
    ),
    Guard(
        "the horizon",
        "meta/queries/horizon.sql",
        "least(statement_timestamp(), min(xact_start)) AS at",
        "statement_timestamp() AS at",
        (f"{LATE}::test_a_writer_that_idles_before_its_first_write_holds_the_window_and_its_rows_arrive",),
    ),
    Guard(
        "the write-ahead shadow",
        "sinks/documents/delivery.py",
        "if self.editions.current.in_flight or self._repairs:",
        "if self._repairs:",
        (f"{INDEX}::test_changes_killed_anywhere_also_between_bulk_and_checkpoint_are_there_once[full]",),
    ),
    Guard(
        "the write alias",
        "sinks/search/store.py",
        'older = [name for name in found["aliases"] if self._is_up_to(ours, name)]',
        "older: list[str] = []",
        (f"{GENERATIONS}::test_who_was_taken_over_finds_no_alias_to_write_through_and_makes_no_index",),
    ),
    Guard(
        "the alias that must exist",
        "sinks/search/client.py",
        "_bulk?require_alias=true&",
        "_bulk?",
        (f"{GENERATIONS}::test_who_was_taken_over_finds_no_alias_to_write_through_and_makes_no_index",),
    ),
    Guard(
        "the visibility check",
        "capture/wal.py",
        "takewhile(lambda ended: self._snapshot.sees(ended.xid), self._buffer.ended)",
        "takewhile(lambda ended: True, self._buffer.ended)",
        (f"{CONTINUITY}::test_a_commit_that_nobody_can_see_yet_waits",),
    ),
    Guard(
        "the second look at the catalogue",
        "engine/live/follower.py",
        "        if not watch.holds():",
        "        if False:",
        (f"{RACES}::test_what_was_changed_and_changed_back_while_rows_were_read_is_noticed",),
    ),
    Guard(
        "the delete guard",
        "engine/work.py",
        "if why and not self.job.options.allow_deletes:",
        "if False:",
        (
            f"{MARTS}::test_an_emptied_source_deletes_nothing",
            f"{MARTS}::test_many_deletes_are_refused_before_anything_is_written",
        ),
    ),
    Guard(
        "the read-only transaction",
        "meta/db.py",
        "{**(READ_ONLY if read_only else {}), **PINNED, **local}",
        "{**PINNED, **local}",
        ("tests/integration/test_staging.py::test_a_remote_source_is_only_read_whoever_reads_it",),
    ),
    Guard(
        "the parser",
        "sources/postgres/reader.py",
        "plain = check_select(select, schemas)",
        "plain = select",
        (f"{CORPORA}::test_whatever_is_more_than_one_plain_select_is_refused",),
    ),
    Guard(
        "the role check",
        "control/api/auth.py",
        "if needed is None or actor.role < needed:",
        "if needed is None:",
        ("tests/contract/test_access.py::test_a_refused_call_changes_nothing",),
    ),
    Guard(
        "the reader's role",
        "sources/connections.py",
        "url = self.reader if local else self._source(source)",
        "url = self.listen if local else self._source(source)",
        (f"{CALLS}::test_a_policy_is_judged_as_it_holds_for_the_reader",),
    ),
    Guard(
        "the guard of DuckDB",
        "sources/duckdb/reader.py",
        "            return judge(self.conn, select, functions)",
        "            return []",
        ("tests/security/test_lakes.py::test_a_hostile_query_is_refused",),
    ),
    Guard(
        "the instance that reaches nothing",
        "sources/duckdb/place.py",
        'yield "SET enable_external_access = false"',
        "pass",
        ("tests/security/test_lakes.py::test_without_the_guard_the_instance_gives_nothing_away",),
    ),
    Guard(
        "the words of Spark",
        "sources/spark/guard.py",
        'if word == Token("word", "with") and after.text == "(":',
        "if False:",
        ("tests/unit/test_spark_guard.py::test_words_are_enough_to_refuse_it",),
    ),
    Guard(
        "the plan of Spark",
        "sources/spark/guard.py",
        "if found := PLAN.search(plan):",
        "if False and (found := PLAN.search(plan)):",
        ("tests/unit/test_spark_guard.py::test_a_plan_that_does_something_is_refused",),
    ),
    Guard(
        "the end of a piece of Spark's result",
        "sources/spark/pieces.py",
        "                    begin, wanted = None, self.rows\n",
        "                    wanted = self.rows\n",
        ("tests/unit/test_spark_pieces.py::test_every_row_is_in_one_piece",),
    ),
    Guard(
        "the division in the shape of a lake table",
        "sinks/lake/shape.py",
        "if self.divided else found",
        "if False else found",
        ("tests/integration/test_lake_divided.py::test_another_division_is_another_table_and_said_before",),
    ),
]
