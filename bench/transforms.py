"""The functions as Vitrina finds them: `VITRINA_TRANSFORM_MODULES=bench.transforms`."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.functions import SPACES, judge, tidy
from vitrina import transform

MODULE = {"VITRINA_TRANSFORM_MODULES": "bench.transforms"}

transform("tidy", adds={"decade": "integer"})(tidy)
transform("judge", adds={"liked": "boolean"})(judge)


@transform("tidy_columns", adds={"decade": "integer"}, batch="columns")
def tidy_columns(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The same, a column at a time."""
    titles = [SPACES.sub(" ", title).strip().strip("\"'«»") for title in columns["title"]]
    decades = [date.year // 10 * 10 if date else None for date in columns["creation_date"]]
    return columns | {"title": titles, "decade": decades}


@transform("tidy_arrow", adds={"decade": "integer"}, batch="arrow")
def tidy_arrow(films: pa.Table) -> pa.Table:
    """The same, a whole column at once."""
    folded = pc.utf8_trim_whitespace(pc.replace_substring_regex(films["title"], r"[\s\p{Z}]+", " "))
    titles = pc.utf8_trim(folded, "\"'«»")
    decades = pc.multiply(pc.divide(pc.year(films["creation_date"]), 10), 10)
    return films.set_column(films.column_names.index("title"), "title", titles).append_column("decade", decades)
