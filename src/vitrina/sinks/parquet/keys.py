"""Which rows have keys that are among others, in Arrow."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def among(rows: Any, gone: Any) -> Any:
    """Of each row, whether its key is one of those."""
    names = gone.column_names
    if len(names) == 1:
        return pc.is_in(_plain(rows[names[0]]), value_set=_plain(gone[names[0]]).combine_chunks())
    own = [f"k{i}" for i in range(len(names))]  # a name of theirs may be read as a path, or be ours
    keys = pa.Table.from_arrays([*map(_plain, gone.columns), _all_true(gone.num_rows)], [*own, "there"])
    numbers = pa.array(range(rows.num_rows), pa.int64())
    numbered = pa.Table.from_arrays([*(_plain(rows[name]) for name in names), numbers], [*own, "n"])
    joined = numbered.join(keys.group_by(own).aggregate([("there", "any")]), keys=own, join_type="left outer")
    return joined.sort_by("n")["there_any"].fill_null(False)


def _all_true(size: int) -> Any:
    return pa.repeat(pa.scalar(True), size)


def _plain(column: Any) -> Any:
    """Values that can be compared: those of a uuid are bytes."""
    return column.cast(pa.binary(16)) if isinstance(column.type, pa.UuidType) else column
