"""The functions as Vitrina finds them: `VITRINA_TRANSFORM_MODULES=bench.transforms`."""

from bench.functions import judge, tidy
from vitrina import transform

MODULE = {"VITRINA_TRANSFORM_MODULES": "bench.transforms"}

transform("tidy", adds={"decade": "integer"})(tidy)
transform("judge", adds={"liked": "boolean"})(judge)
