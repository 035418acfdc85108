"""Rows on their way to a worker: as COPY writes them."""

from hypothesis import example, given
from hypothesis import strategies as st

from vitrina.transforms.frames import Batch, fields

VALUES = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(VALUES, min_size=1))
@example(["\\N", "N", "\\", "\t\n\r\b\f\v", ""])
def test_a_line_gives_back_the_values_that_it_was_made_of(row: list[str | None]) -> None:
    (line,) = Batch.of([], [], [row]).lines
    assert line.count(b"\n") == 1
    assert [None if value is None else value.decode() for value in fields(line)] == row
