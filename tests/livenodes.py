"""The node types that a server's grammar has, read from its own headers."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

HEADERS = ("primnodes.h", "parsenodes.h")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRUCT = re.compile(r"^typedef struct (\w+)\s*\{(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"(\w+)(?:\s+pg_node_attr\([^;]*\))?;")
ENUM = re.compile(r"^typedef enum (\w+)\s*\{(.*?)^\}", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"(\w+)\s*(?:=[^,]*)?(?:,|\Z)")
SAME = re.compile(r"^typedef (\w+) (\w+);", re.MULTILINE)  # DistinctExpr is an OpExpr
# Structs whose every field and enums whose every member the table must tell of.
CLAUSES = ("Query", "RangeTblEntry")
KINDS = (
    "RTEKind",
    "JoinType",
    "SetOperation",
    "SubLinkType",
    "GroupingSetKind",
    "LimitOption",
    "BoolExprType",
    "CmdType",
)


def read_headers(directory: Path) -> dict[str, list[str]]:
    """All node structs (under "nodes"), and the fields or members of those that matter."""
    text = COMMENT.sub("", "".join((directory / name).read_text() for name in HEADERS) + _enums(directory))
    structs = dict(STRUCT.findall(text))
    enums = dict(ENUM.findall(text))
    nodes = {name for name, body in structs.items() if _is_node(body, structs)}
    nodes |= {name for same, name in SAME.findall(text) if same in nodes}
    found = {"nodes": sorted(nodes)}
    found |= {name: FIELD.findall(structs[name]) for name in CLAUSES}
    return found | {name: MEMBER.findall(enums[name].strip()) for name in KINDS}


def _enums(directory: Path) -> str:
    return (directory / "nodes.h").read_text()


def _is_node(body: str, structs: Mapping[str, str]) -> bool:
    """Whether a struct begins with a tag, or with a struct that does."""
    first = re.search(
        r"(\w+)\s+(?:pg_node_attr\([^;]*\)\s*)?\w+", re.sub(r"pg_node_attr\((?:[^()]|\([^()]*\))*\)", "", body)
    )
    name = first[1] if first else ""
    return name in ("NodeTag", "Expr") or (name in structs and _is_node(structs[name], structs))


def read_lists(text: str) -> dict[str, list[str]]:
    """What `written` wrote."""
    return {name: members.split() for name, members in (line.split(": ", 1) for line in text.splitlines())}


def written(found: Mapping[str, Sequence[str]]) -> str:
    """As it is kept in the repository."""
    return "".join(f"{name}: {' '.join(members)}\n" for name, members in found.items())
