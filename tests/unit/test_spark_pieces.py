"""A result that is read in pieces: none too large, none twice, none left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrina.sources.spark.pieces import BITS, FIRST_ROWS, GROWTH, Pieces, Span

SPANS = st.lists(st.integers(0, 50), max_size=8).map(lambda rows: [Span(n * 3, count) for n, count in enumerate(rows)])


@given(SPANS, st.integers(1, 40), st.integers(1, 300), st.integers(1, 9))
def test_every_row_is_in_one_piece(spans: list[Span], rows: int, target: int, width: int) -> None:
    numbers = [(part << BITS) + n for part, count in spans for n in range(count)]
    pieces, seen = Pieces(target, rows), []
    for begin, end in pieces.cut(spans):
        piece = [number for number in numbers if begin <= number < end]
        assert 0 < len(piece) <= pieces.rows
        seen += piece
        pieces.weighed(len(piece), len(piece) * width)
    assert seen == numbers


@pytest.mark.parametrize(("width", "rows"), [(64, FIRST_ROWS * GROWTH), (1_000_000, 64), (500_000_000, 1)])
def test_the_next_piece_is_as_large_as_rows_allow(width: int, rows: int) -> None:
    pieces = Pieces(target=64_000_000)
    pieces.weighed(FIRST_ROWS, FIRST_ROWS * width)
    assert pieces.rows == rows
