"""One suite over both kinds of capture: what is in the log is what happened to the tables."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.capturing import Captured, capturing
from tests.patience import patient
from tests.support import wait_for


@pytest.fixture(scope="module", params=["wal", "trigger"])
def source(request: pytest.FixtureRequest) -> Iterator[Captured]:
    with capturing(request.param) as captured:
        captured.install()
        captured.start()
        yield captured


@pytest.fixture
def captured(source: Captured) -> Captured:
    source.empty()
    return source


def ops(changes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(change["relation"].removeprefix("content."), change["op"]) for change in changes]


ROW = """
INSERT INTO content.items VALUES (
    1, E'tab\\t quote" back\\\\slash \\n кино', 1.50, '{a,"b c",NULL}', '{"a": [1, 2.5, null]}', '{"b": 1}',
    '2026-03-29 03:30:00.123456+03', true, 'ab', '\\xdeadbeef', '1 day 02:00', NULL, 'x')
"""


def test_insert_update_delete_with_exact_images(captured: Captured) -> None:
    captured.run(ROW)
    captured.run("UPDATE content.items SET price = 1.500, flag = false WHERE id = 1")
    captured.run("DELETE FROM content.items WHERE id = 1")
    inserted, updated, deleted = captured.catch_up()
    assert [c["op"] for c in (inserted, updated, deleted)] == ["I", "U", "D"]
    image = {
        "id": "1", "title": 'tab\t quote" back\\slash \n кино', "price": "1.50", "tags": '{a,"b c",NULL}',
        "doc": {"a": [1, 2.5, None]}, "raw": {"b": 1}, "at": "2026-03-29 00:30:00.123456+00", "flag": "t",
        "pad": "ab  ", "bin": "\\xdeadbeef", "span": "1 day 02:00:00", "body": None, 'odd "name': "x",
    }  # fmt: skip
    assert (inserted["old_image"], inserted["new_image"]) == (None, image)
    assert (updated["old_image"], updated["new_image"]) == (image, image | {"price": "1.500", "flag": "f"})
    assert (deleted["old_image"], deleted["new_image"]) == (updated["new_image"], None)


def test_images_restore_rows_exactly(captured: Captured) -> None:
    captured.run(ROW, "INSERT INTO content.items (id) VALUES (2)")
    captured.run("UPDATE content.items SET doc = '\"text\"', raw = '[1]', title = '' WHERE id = 2")
    captured.catch_up()
    captured.assert_replay_equals()


def test_a_key_that_moves_and_rows_that_follow_each_other(captured: Captured) -> None:
    captured.run("INSERT INTO content.keyed SELECT i, 'k' || i FROM generate_series(1, 5) i")
    captured.run("UPDATE content.keyed SET id = id + 100 WHERE id > 3", "UPDATE content.keyed SET id = 4 WHERE id = 1")
    captured.run("DELETE FROM content.keyed WHERE id = 2", "INSERT INTO content.keyed VALUES (2, 'again')")
    moved = [c for c in captured.catch_up() if c["op"] == "U"]
    assert [(c["old_image"]["id"], c["new_image"]["id"]) for c in moved] == [("4", "104"), ("5", "105"), ("1", "4")]
    captured.assert_replay_equals()


def test_several_tables_in_one_transaction_stay_together(captured: Captured) -> None:
    captured.run("INSERT INTO content.items (id) VALUES (1)", "INSERT INTO content.keyed VALUES (1)")
    captured.run("INSERT INTO content.parts VALUES (1, '2026-01-05')", "UPDATE content.items SET title = 'x'")
    changes = captured.catch_up()
    assert ops(changes) == [("items", "I"), ("keyed", "I"), ("parts", "I"), ("items", "U")]
    assert [c["xid"] == changes[0]["xid"] for c in changes] == [True, True, False, False]
    assert all(c["committed_at"] for c in changes)


def test_what_is_rolled_back_is_not_there(captured: Captured) -> None:
    with pytest.raises(psycopg.errors.UniqueViolation):
        captured.run("INSERT INTO content.keyed VALUES (1)", "INSERT INTO content.keyed VALUES (1)")
    captured.run(
        "INSERT INTO content.keyed VALUES (1)", "SAVEPOINT a", "INSERT INTO content.keyed VALUES (2)",
        "ROLLBACK TO SAVEPOINT a", "SAVEPOINT b", "INSERT INTO content.keyed VALUES (3)", "RELEASE SAVEPOINT b",
    )  # fmt: skip
    changes = captured.catch_up()
    assert [c["new_image"]["id"] for c in changes] == ["1", "3"]
    assert len({c["xid"] for c in changes}) == 1


def test_truncate_is_an_entry(captured: Captured) -> None:
    captured.run("INSERT INTO content.keyed VALUES (1)", "INSERT INTO content.parts VALUES (1, '2026-01-05')")
    captured.run("TRUNCATE content.keyed, content.parts", "INSERT INTO content.keyed VALUES (2)")
    changes = captured.catch_up()
    assert {("keyed", "T"), ("parts", "T")} <= {*ops(changes)}
    captured.assert_replay_equals()


def test_large_values_that_do_not_change(captured: Captured) -> None:
    """Under FULL the old image has them; with a key alone the column is left out of the new image, and no other."""
    captured.run("ALTER TABLE content.items ALTER body SET STORAGE EXTERNAL")
    captured.run("ALTER TABLE content.keyed ALTER body SET STORAGE EXTERNAL")
    captured.run("INSERT INTO content.items (id, body) VALUES (1, repeat('x', 20000))")
    captured.run("INSERT INTO content.keyed VALUES (1, 't', repeat('y', 20000))")
    captured.run("UPDATE content.items SET title = 'new'", "UPDATE content.keyed SET title = 'new'")
    changes = [c for c in captured.catch_up() if c["op"] != "R"]
    full, keyed = changes[-2:]
    assert full["new_image"]["body"] == full["old_image"]["body"] == "x" * 20_000
    missing = set() if captured.kind == "trigger" else {"body"}
    assert {"id", "title", "body"} - keyed["new_image"].keys() == missing
    captured.assert_replay_equals()


def test_partitions_are_reported_as_their_root(captured: Captured) -> None:
    captured.run("INSERT INTO content.parts VALUES (1, '2026-01-05', 'a'), (2, '2026-02-05', 'b')")
    captured.run("INSERT INTO content.parts_1 VALUES (3, '2026-01-06', 'c')")
    captured.run("UPDATE content.parts SET day = '2026-02-06' WHERE id = 1")
    captured.run("DELETE FROM content.parts_2 WHERE id = 2")
    changes = captured.catch_up()
    assert {c["relation"] for c in changes} == {"content.parts"}
    assert [c["op"] for c in changes][:3] == ["I"] * 3
    captured.assert_replay_equals()


def test_a_transaction_that_commits_late_comes_late(captured: Captured) -> None:
    with psycopg.connect(captured.lab.conninfo) as late:
        late.execute("INSERT INTO content.keyed VALUES (1, 'first written')")
        captured.run("INSERT INTO content.keyed VALUES (2, 'first committed')")
        before = captured.catch_up()
        late.commit()
    after = captured.catch_up()
    assert [c["new_image"]["id"] for c in before] == ["2"]
    assert [c["new_image"]["id"] for c in after] == ["2", "1"]


def test_order_follows_what_waited_for_what(captured: Captured) -> None:
    """The transaction that began first writes the row last; and both are read at once."""
    captured.run("INSERT INTO content.keyed VALUES (1, 'a'), (2, 'a')")
    captured.stop()
    with psycopg.connect(captured.lab.conninfo) as first:
        first.execute("UPDATE content.keyed SET title = 'b' WHERE id = 2")
        captured.run("UPDATE content.keyed SET title = 'c' WHERE id = 1")
        first.execute("UPDATE content.keyed SET title = title || 'd' WHERE id = 1")
        first.commit()
    captured.start()
    titles = [c["new_image"]["title"] for c in captured.catch_up() if c["op"] == "U"]
    assert titles == ["c", "b", "cd"]


def test_prepared_transactions_come_when_they_commit(captured: Captured) -> None:
    captured.run("SELECT 1")
    with psycopg.connect(captured.lab.conninfo, autocommit=True) as conn:
        for name, end in (("keep", "COMMIT"), ("drop", "ROLLBACK")):
            gid = f"{name}-{captured.capture.slot}"
            conn.execute("BEGIN")
            conn.execute("INSERT INTO content.keyed VALUES (%s, %s)", [len(name) + ord(name[0]), name])
            conn.execute(f"PREPARE TRANSACTION '{gid}'".encode())
            assert captured.catch_up() == captured.catch_up()
            conn.execute(f"{end} PREPARED '{gid}'".encode())
    assert [c["new_image"]["title"] for c in captured.catch_up()] == ["keep"]
    captured.assert_replay_equals()


def test_statements_of_every_sort(captured: Captured) -> None:
    captured.run("INSERT INTO content.keyed SELECT i, 'x' FROM generate_series(1, 20) i")
    captured.run("INSERT INTO content.keyed VALUES (1, 'up'), (21, 'new') ON CONFLICT (id) DO UPDATE SET title = 'up'")
    captured.run(
        "MERGE INTO content.keyed k USING (VALUES (2), (3), (30)) v (id) ON k.id = v.id"
        " WHEN MATCHED AND v.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET title = 'merged'"
        " WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'merged')"
    )
    captured.run(
        "WITH gone AS (DELETE FROM content.keyed WHERE id > 15 RETURNING id)"
        " INSERT INTO content.items (id) SELECT id FROM gone"
    )
    captured.run("UPDATE content.keyed SET title = 'none' WHERE false")
    with captured.conn.cursor().copy("COPY content.keyed (id, title) FROM STDIN") as copy:
        copy.write_row((99, "copied"))
    captured.catch_up()
    captured.assert_replay_equals()


def test_writers_side_by_side(captured: Captured) -> None:
    def write(seed: int) -> None:
        choose = random.Random(seed)
        with psycopg.connect(captured.lab.conninfo) as conn:
            for _ in range(40):
                try:
                    for _ in range(choose.randint(1, 4)):
                        conn.execute(statement(choose).encode())
                    conn.rollback() if choose.random() < 0.2 else conn.commit()
                except psycopg.Error:  # in each other's way
                    conn.rollback()

    def statement(choose: random.Random) -> str:
        row = choose.randint(1, 30)
        return choose.choice(
            [
                f"INSERT INTO content.items (id, title) VALUES ({row}, 'n') ON CONFLICT (id) DO UPDATE SET title = 'u'",
                f"UPDATE content.items SET price = coalesce(price, 0) + 1.10 WHERE id = {row}",
                f"DELETE FROM content.items WHERE id = {row}",
                f"INSERT INTO content.parts VALUES ({row}, '2026-02-01') ON CONFLICT DO NOTHING",
                f"UPDATE content.parts SET day = '2026-01-0{row % 9 + 1}' WHERE id = {row} AND day > '2026-01-31'",
                f"DELETE FROM content.parts WHERE id = {row}",
            ]
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    captured.catch_up()
    captured.assert_replay_equals("content.items", "content.parts")


def test_ids_grow_without_gaps_and_followers_are_woken(captured: Captured) -> None:
    with psycopg.connect(captured.lab.conninfo, autocommit=True) as listener:
        listener.execute("LISTEN vitrina_changes")
        captured.run("INSERT INTO content.keyed VALUES (1), (2), (3)")
        assert [n.payload for n in listener.notifies(timeout=patient(10), stop_after=1)] == ["warehouse"]
    captured.catch_up()
    ids = [c["id"] for c in captured.changes()]
    assert ids == list(range(captured.base + 1, captured.base + 1 + len(ids)))
    wait_for(lambda: captured.capture.caught_up_at)


def test_json_that_jsonb_cannot_hold_is_kept_as_text(captured: Captured) -> None:
    captured.run("INSERT INTO content.items (id, raw) VALUES (1, '{\"a\": \"\\u0000\"}'), (2, '1e99999')")
    assert [c["new_image"]["raw"] for c in captured.catch_up()] == ['{"a": "\\u0000"}', "1e99999"]


def test_a_relation_that_is_altered_or_rewritten_is_an_entry(captured: Captured) -> None:
    captured.run("INSERT INTO content.keyed VALUES (1, 'a')")
    captured.catch_up()
    captured.run("ALTER TABLE content.keyed ALTER title TYPE text USING upper(title)")
    wait_for(lambda: ("keyed", "R") in ops(captured.changes()))


def test_a_runner_captures_and_lets_go_when_it_stops(captured: Captured) -> None:
    captured.stop()
    with captured.lab.runner() as runner:
        captured.run("INSERT INTO content.keyed VALUES (1, 'x')")
        assert [c["op"] for c in captured.catch_up()] == ["I"]
        assert captured.capture.runner == runner.identity.name
    assert (captured.capture.owner, captured.capture.last_error) == (None, None)
    captured.start()


def test_the_log_is_whole_after_a_restart_of_the_capture(captured: Captured) -> None:
    captured.run("INSERT INTO content.keyed VALUES (1)")
    captured.catch_up()
    captured.stop()
    assert captured.capture.owner is None
    captured.run("INSERT INTO content.keyed VALUES (2)", "UPDATE content.keyed SET title = 'x'")
    captured.start()
    assert [c["op"] for c in captured.catch_up()] == ["I", "I", "U", "U"]
    assert captured.capture.generation == 1
    captured.assert_replay_equals()
