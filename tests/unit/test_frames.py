"""Rows on their way to a worker: as COPY writes them."""

from hypothesis import example, given
from hypothesis import strategies as st

from vitrina.transforms.frames import Batch

VALUES = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(VALUES, min_size=1))
@example(["\\N", "N", "\\", "\t\n\r\b\f\v", ""])
def test_a_line_gives_back_the_values_that_it_was_made_of(row: list[str | None]) -> None:
    batch = Batch.of([], [], [row, row])
    assert (batch.text.count(b"\n"), batch.size) == (2, 2)
    assert [[None if value is None else value.decode() for value in values] for values in batch.values()] == [row, row]
