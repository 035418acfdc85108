"""The transforms of the benchmark, as Vitrina finds them: `VITRINA_TRANSFORM_MODULES=bench.transforms`."""

from bench.titles import tidy
from vitrina import transform

transform("tidy_titles", adds={"decade": "integer"})(tidy)
