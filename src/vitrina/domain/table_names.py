"""Tables as people list them: with commas between, each as it is or quoted as in SQL."""

import re

from vitrina.domain.errors import ConfigError
from vitrina.domain.refusals import Refusal

QUOTED = r'"(?:[^"]|"")+"'
NAME = re.compile(rf'\s*({QUOTED}|[^",.][^,.]*)\s*\.\s*({QUOTED}|[^",][^,]*)\s*(?:,[,\s]*|$)')


def split_tables(text: str) -> list[str]:
    """`schema.table` each, without quotes."""
    names, rest = [], text.strip(", \n")
    while rest:
        found = NAME.match(rest)
        if not found:
            raise ConfigError.of(Refusal.NO_TABLE_LISTED, name=rest.partition(",")[0])
        names.append(".".join(_unquoted(part.strip()) for part in found.groups()))
        rest = rest[found.end() :]
    return names


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
