"""What every kind of mart must do when nothing goes wrong but what people do."""

import random
from typing import Any

import pytest

from vitrina.domain.errors import RetryableError
from vitrina.sinks.documents.delivery import Delivery
from vitrina.sinks.registry import abilities_of
from vitrina.stores import Batch, Superseded
from vitrina.testing.marts import (
    CURSOR,
    LATE,
    AnyMart,
    Mart,
    add_items,
    assert_equal,
    at_batch,
    failed,
    items,
    pause_at_batch,
    went,
)

MODES = pytest.mark.parametrize("mode", [{}, CURSOR], ids=["full", "incremental"])
TEXTS = [("x", "y|z"), ("x|y", "z"), ("x\\", "|z"), ("x\\|", "z"), ("", "z"), ("é\t\u2028", '"\n')]


class SinkConformance:
    """Subclass it with a fixture `mart`."""

    def test_inserts_updates_and_deletes_arrive_and_nothing_else_is_sent(self, mart: AnyMart) -> None:
        pipeline = items(mart)
        assert went(mart, pipeline) == (10, 0)
        assert_equal(mart, pipeline)
        assert went(mart, pipeline) == (0, 0)
        mart.lab.sql("UPDATE content.item SET title = 'other' WHERE id IN (2, 5, 9, 10)")
        mart.lab.sql("DELETE FROM content.item WHERE id IN (1, 3)")
        add_items(mart.lab, 11, 14)
        assert went(mart, pipeline) == (8, 2)
        assert_equal(mart, pipeline)

    def test_an_empty_source_makes_an_empty_mart(self, mart: AnyMart) -> None:
        pipeline = items(mart, 0)
        assert went(mart, pipeline) == (0, 0)
        assert_equal(mart, pipeline)
        add_items(mart.lab, 1, 5)
        assert went(mart, pipeline) == (5, 0)
        assert_equal(mart, pipeline)

    def test_a_key_of_several_columns_and_any_text(self, mart: AnyMart) -> None:
        mart.lab.sql("CREATE TABLE content.pair (a text, b text, n int)")
        mart.lab.sql("GRANT SELECT ON content.pair TO vitrina_reader")
        for n, (a, b) in enumerate(TEXTS):
            mart.lab.sql("INSERT INTO content.pair VALUES (%s, %s, %s)", a, b, n)
        pipeline = mart.lab.add(source_table="content.pair", key=["a", "b"], batch_size=2, target_table=mart.target)
        assert went(mart, pipeline) == (6, 0)
        assert_equal(mart, pipeline)
        mart.lab.sql("UPDATE content.pair SET n = -1 WHERE n < 2; DELETE FROM content.pair WHERE n = 3")
        assert went(mart, pipeline) == (2, 1)
        assert_equal(mart, pipeline)

    @pytest.mark.parametrize("what", ["load", "changes", "incremental", "rebuild"])
    def test_a_run_is_paused_in_the_middle_and_goes_on(self, mart: AnyMart, what: str) -> None:
        pipeline = items(mart, 24, **(CURSOR if what == "incremental" else {}))
        if what in ("changes", "rebuild"):
            went(mart, pipeline)
            mart.lab.sql("UPDATE content.item SET title = 'other' WHERE id > 3; DELETE FROM content.item WHERE id < 3")
        pause_at_batch(mart.lab, pipeline, 2)
        run = mart.lab.run(pipeline, rebuild=what == "rebuild")
        if abilities_of(mart.target).swaps or what != "rebuild":  # what cannot swap is rebuilt in one batch
            assert (run["status"], mart.lab.status(pipeline)) == ("PAUSED", "PAUSED")
            assert 0 < run["rows_written"] < 21
            assert mart.lab.sql("SELECT * FROM etl.etl_indexes WHERE confirmed <> last_version") == []
        at_batch(mart.lab, 2, "NULL")
        went(mart, pipeline)
        assert_equal(mart, pipeline)

    @MODES
    def test_a_rebuild_writes_everything_anew(self, mart: AnyMart, mode: dict[str, Any]) -> None:
        pipeline = items(mart, **mode)
        went(mart, pipeline)
        mart.lab.sql("DELETE FROM content.item WHERE id = 4")
        add_items(mart.lab, 11, 12)
        written, _ = went(mart, pipeline, rebuild=True)
        assert written == 11
        assert_equal(mart, pipeline)
        assert went(mart, pipeline) == (0, 0)

    @MODES
    def test_a_repair_puts_right_what_somebody_has_done_to_the_mart(self, mart: AnyMart, mode: dict[str, Any]) -> None:
        pipeline = items(mart, **mode)
        went(mart, pipeline)
        mart.damage("2", "3", {"id": 99, "title": "stranger"})
        assert went(mart, pipeline, repair=True) == (2, 1)
        assert_equal(mart, pipeline)
        mart.lab.sql("UPDATE content.item SET title = 'other', at = clock_timestamp() WHERE id < 4")
        assert went(mart, pipeline) == (3, 0)
        assert_equal(mart, pipeline)

    def test_a_reconcile_reads_what_is_really_there(self, mart: AnyMart) -> None:
        pipeline = items(mart)
        went(mart, pipeline)
        assert mart.lab.reconcile(pipeline)["equal"]
        mart.damage("2", "3", {"id": 99, "title": "stranger"})
        report = mart.lab.reconcile(pipeline)
        assert [report[kind] for kind in ("missing", "extra", "different")] == [1, 1, 1]
        assert report["samples"]["different"][0]["columns"]["title"]["mart"] == "damaged"

    def test_a_new_column_is_drift_or_is_added(self, mart: AnyMart) -> None:
        pipeline = items(mart, source_query=None, source_table="content.item")
        went(mart, pipeline)
        before = mart.rows(["id"])
        mart.lab.sql("ALTER TABLE content.item ADD COLUMN tags text[] DEFAULT '{a}'")
        assert "drift" in failed(mart, pipeline)
        assert mart.rows(["id"]) == before
        mart.lab.sql("UPDATE etl.etl_pipelines SET on_drift = 'add'")
        assert went(mart, pipeline) == (10, 0)
        assert_equal(mart, pipeline)

    def test_marts_are_equal_after_random_changes(self, mart: AnyMart) -> None:
        rng = random.Random(7)
        pipeline = items(mart, 40)
        for number in range(5):
            mart.lab.sql("UPDATE etl.etl_pipelines SET batch_size = %s", rng.choice((1, 2, 7, 5_000)))
            went(mart, pipeline, allow_deletes=True)
            assert_equal(mart, pipeline)
            share, last = rng.random(), 100 * number
            mart.lab.sql("DELETE FROM content.item WHERE random() < %s / 4", share)
            mart.lab.sql("UPDATE content.item SET title = md5(random()::text) WHERE random() < %s", share)
            add_items(mart.lab, last + 101, last + rng.randrange(101, 140))

    def test_an_answer_that_is_lost_after_all_has_arrived_does_no_harm(
        self, mart: AnyMart, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lost: list[Batch] = []
        send = Delivery._send

        def lose(delivery: Delivery, name: str, batch: Batch) -> None:
            send(delivery, name, batch)
            if len(lost) < 2:
                lost.append(batch)
                raise RetryableError("the answer was lost")

        monkeypatch.setattr(Delivery, "_send", lose)
        pipeline = items(mart)
        went(mart, pipeline)
        assert_equal(mart, pipeline)
        mart.lab.sql("DELETE FROM content.item WHERE id < 3; UPDATE content.item SET title = 'other' WHERE id > 7")
        lost.clear()
        went(mart, pipeline)
        assert_equal(mart, pipeline)

    def test_an_older_epoch_changes_nothing(self, mart: Mart) -> None:
        pipeline = items(mart)
        went(mart, pipeline)
        before = mart.rows(["id"])
        with mart.opened() as store:
            [name] = store.served()
            store.take(name, LATE)
            with pytest.raises(Superseded):
                store.write(name, Batch(LATE, b'"1"\n\n', 1), LATE - 1)
            with pytest.raises(Superseded):
                store.serve(name, LATE - 1)
        mart.lab.sql("UPDATE content.item SET title = 'other'")
        assert "somebody else writes to" in failed(mart, pipeline)
        assert mart.rows(["id"]) == before
