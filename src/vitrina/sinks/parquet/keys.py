"""Which rows have keys that are among others, in Arrow."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def among(rows: Any, gone: Any) -> Any:
    """Of each row, whether its key is one of those."""
    names = gone.column_names
    if len(names) == 1:
        return pc.is_in(_plain(rows[names[0]]), value_set=_plain(gone[names[0]]).combine_chunks())
    keys = pa.table({name: _plain(gone[name]) for name in names}).append_column("there", _all_true(gone.num_rows))
    numbered = pa.table({name: _plain(rows[name]) for name in names})
    numbered = numbered.append_column("n", pa.array(range(rows.num_rows), pa.int64()))
    joined = numbered.join(keys.group_by(names).aggregate([("there", "any")]), keys=names, join_type="left outer")
    return joined.sort_by("n")["there_any"].fill_null(False)


def _all_true(size: int) -> Any:
    return pa.repeat(pa.scalar(True), size)


def _plain(column: Any) -> Any:
    """Values that can be compared: those of a uuid are bytes."""
    return column.cast(pa.binary(16)) if isinstance(column.type, pa.UuidType) else column
