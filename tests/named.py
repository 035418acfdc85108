"""The tests there are, by the names that documents give them: path::name."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent


@cache
def named_tests() -> frozenset[str]:
    """Every test function, as its file says it."""
    return frozenset(
        f"tests/{file.relative_to(TESTS)}::{node.name}"
        for file in TESTS.rglob("test_*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )
