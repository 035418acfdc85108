"""Variables that look like a setting and are none: whoever has set one believes that it holds."""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from dotenv import dotenv_values

from vitrina.settings import Settings, variable

ALIKE = 0.85  # other variables of that prefix are somebody else's
NAMED = "__"  # after it, the name of one of several


def misspelt() -> Iterator[tuple[str, str]]:
    """Those of the environment and of `.env`, each with the setting that must be meant."""
    known = {variable(name) for name in Settings.model_fields}
    known |= {f"{name}_FILE" for name in known}
    for given in sorted({*os.environ, *dotenv_values(Path(".env"))}):
        name, several, which = given.partition(NAMED)
        if name.startswith(("VITRINA_", "ELASTICSEARCH_")) and name not in known:
            for meant in get_close_matches(name, known, 1, ALIKE):
                yield given, f"{meant}{several}{which}"
