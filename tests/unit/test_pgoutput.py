"""The decoder on what a real server has streamed (`python -m tests.unit.record_pgoutput`)."""

import json
from datetime import UTC, datetime

import pytest

from tests.unit.record_pgoutput import RECORDED, STEPS
from vitrina.capture.pgoutput import Begin, Commit, Decoder, Row
from vitrina.capture.positions import Snapshot, format_lsn, parse_lsn
from vitrina.domain.errors import FatalError

MESSAGES = {name: [bytes.fromhex(data) for data in hexes] for name, hexes in json.loads(RECORDED.read_text()).items()}
FIRST = {"id": "1", "title": 'a"\\b\nё', "doc": {"x": [1, 2.5]}, "raw": '{"y": "\\u0000"}', "body": None, "ok": "t"}


@pytest.fixture(scope="module")
def decoded() -> dict[str, list[Row]]:
    """Rows by step, in one stream."""
    return decode_all(Decoder())


def decode_all(decoder: Decoder) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for name, messages in MESSAGES.items():
        events = [decoder.decode(message) for message in messages]
        assert isinstance(events[0], Begin)
        assert isinstance(events[-1], Commit)
        assert events[-1].end_lsn > events[0].lsn
        rows[name] = [row for event in events[1:-1] if isinstance(event, list) for row in event]
    return rows


def shown(rows: list[Row]) -> list[tuple[str, str, object, object]]:
    return [(r.relation, r.op, r.old and json.loads(r.old), r.new and json.loads(r.new)) for r in rows]


@pytest.mark.parametrize("wanted", [[], ["id"], ["title", "ok"], ["doc", "raw", "body"], ["id", "k", "absent"]])
@pytest.mark.parametrize("later", [False, True])
def test_images_have_the_wanted_columns_alone(decoded: dict[str, list[Row]], wanted: list[str], later: bool) -> None:
    relations = {row.relation for rows in decoded.values() for row in rows}
    decoder = Decoder(wanted=None if later else dict.fromkeys(relations, wanted))
    if later:
        decode_all(decoder)  # the relations are known by then
        decoder.want(dict.fromkeys(relations, wanted))
    found = decode_all(decoder)
    for step in decoded:
        whole = [row for row in shown(decoded[step]) if row[1] != "R"]
        assert [row for row in shown(found[step]) if row[1] != "R"] == [
            (relation, op, *(cut(image, wanted) for image in (old, new))) for relation, op, old, new in whole
        ]


def cut(image: object, wanted: list[str]) -> object:
    return {name: value for name, value in image.items() if name in wanted} if isinstance(image, dict) else image


def test_every_step_was_recorded() -> None:
    assert MESSAGES.keys() == STEPS.keys()


def test_an_insert_has_all_columns(decoded: dict[str, list[Row]]) -> None:
    assert shown(decoded["insert"]) == [("public.whole", "I", None, FIRST)]
    assert '"doc": {"x": [1, 2.50]}' in str(decoded["insert"][0].new)


def test_an_update_of_a_whole_row_has_both_images(decoded: dict[str, list[Row]]) -> None:
    assert shown(decoded["update whole"]) == [("public.whole", "U", FIRST, FIRST | {"title": "b", "raw": [1]})]


def test_an_unchanged_large_value_comes_from_the_old_image_or_is_left_out(decoded: dict[str, list[Row]]) -> None:
    (_, _, old, new), keyed = shown(decoded["large unchanged"])
    assert isinstance(old, dict)
    assert isinstance(new, dict)
    assert new["body"] == old["body"] == "x" * 3000
    assert keyed == ("public.keyed", "U", None, {"id": "1", "title": "u"})


def test_a_key_that_moves_gives_the_old_key_alone(decoded: dict[str, list[Row]]) -> None:
    assert shown(decoded["key moves"]) == [("public.keyed", "U", {"id": "1"}, {"id": "2", "title": "u"})]


def test_a_delete_has_the_key_or_the_whole_row(decoded: dict[str, list[Row]]) -> None:
    keyed, whole = shown(decoded["delete"])
    assert keyed == ("public.keyed", "D", {"id": "2"}, None)
    assert isinstance(whole[2], dict)
    assert whole[2].keys() == FIRST.keys()


def test_what_was_rolled_back_is_not_there(decoded: dict[str, list[Row]]) -> None:
    assert shown(decoded["rolled back"]) == [("public.keyed", "I", None, {"id": "3", "title": None, "body": None})]


def test_an_altered_relation_is_said_before_its_next_row(decoded: dict[str, list[Row]]) -> None:
    altered, row = shown(decoded["altered"])
    assert altered == ("public.keyed", "R", None, None)
    assert row[3] == {"id": "4", "title": None, "body": None, "more": None}


def test_a_relation_described_again_as_it_was_is_nothing_new() -> None:
    decoder = Decoder()
    (description,) = [m for m in MESSAGES["insert"] if m[:1] == b"R"]
    assert decoder.decode(description) == []
    assert decoder.decode(description) == []


def test_a_truncate_names_each_table(decoded: dict[str, list[Row]]) -> None:
    assert {(r.relation, r.op) for r in decoded["truncate"]} == {("public.whole", "T"), ("public.keyed", "T")}


def test_a_transaction_says_when_it_committed() -> None:
    begin = Decoder().decode(MESSAGES["insert"][0])
    assert isinstance(begin, Begin)
    assert datetime(2026, 1, 1, tzinfo=UTC) < begin.committed_at < datetime(2100, 1, 1, tzinfo=UTC)
    assert begin.xid > 0


def test_what_is_not_understood_is_an_error_not_a_gap() -> None:
    with pytest.raises(FatalError, match="does not know"):
        Decoder().decode(b"S....")
    with pytest.raises(FatalError, match="before its description"):
        Decoder().decode(next(m for m in MESSAGES["insert"] if m[:1] == b"I"))


def test_positions() -> None:
    assert format_lsn(parse_lsn("16/B374D848")) == "16/B374D848"
    snapshot = Snapshot.parse("100:110:101,105")
    assert [x for x in range(98, 113) if snapshot.sees(x)] == [98, 99, 100, 102, 103, 104, 106, 107, 108, 109]
    wrapped = Snapshot.parse(f"{2**32 + 5}:{2**32 + 10}:")
    assert [wrapped.widen(x) for x in (2**32 - 1, 3, 12)] == [2**32 - 1, 2**32 + 3, 2**32 + 12]
