"""Rows are found by their keys, whatever the columns of the key are called."""

import pyarrow as pa
import pytest

from vitrina.sinks.parquet.keys import among


@pytest.mark.parametrize("name", ["n", "there", "there_any", "k1", "k0", ".a", "a[0]", "a.b", ""])
def test_a_key_of_several_columns_of_any_name(name: str) -> None:
    rows = pa.table({"id": [1, 2, 2, 3], name: ["x", "x", "y", None]})
    gone = pa.table({"id": [2, 1, 2], name: ["y", "y", "y"]})
    assert among(rows, gone).to_pylist() == [False, False, True, False]
