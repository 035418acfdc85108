"""docs/client.md is true: its examples are run in order against a real server and a runner."""

import doctest
import re
from pathlib import Path

from tests.contract.server import Api
from vitrina import client

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text()
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_the_examples_answer_as_they_say(api: Api) -> None:
    examples = doctest.DocTestParser().get_doctest(PAGE, {}, "client.md", "client.md", 0)
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(optionflags=LENIENT).run(examples, out=said.append)
    assert (failed, tried) == (0, len(examples.examples)), "".join(said)
    assert tried > 25


def test_the_page_names_every_error() -> None:
    table = PAGE.split("## Errors")[1]
    named = set(re.findall(r"`([A-Z]\w+)`", table))
    errors = {
        name
        for name in client.__all__
        if isinstance(kind := getattr(client, name), type) and issubclass(kind, Exception)
    }
    assert named == errors
