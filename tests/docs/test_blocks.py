"""What runs the documentation notices what is wrong in it."""

import pytest

from tests.docs.blocks import blocks
from tests.docs.stack import OUTSIDE, compare, shortened

PAGE = """\
```console
$ first \\
  --long
said by it …
$ second
```

<!-- not run: needs Docker -->
```sh
docker ps
```

```yaml
# mart.yaml
name: mart
```
```json
{}
```
"""


def test_a_page_is_taken_apart() -> None:
    console, docker, yaml, json = blocks("page.md", PAGE)
    assert console.commands == [("first \\\n  --long", ["said by it …"]), ("second", [])]
    assert (docker.why_not, docker.kind, yaml.file, str(json)) == ("needs Docker", "sh", "mart.yaml", "page.md:17")
    assert (json.is_right_below(yaml), yaml.is_right_below(docker)) == (True, False)
    with pytest.raises(AssertionError, match="a fence is one of"):
        [*blocks("page.md", "```perl\nprint\n```\n")]


def test_output_that_was_not_printed_is_noticed() -> None:
    compare(["run 7 …", "rows  5"], "run 7 of 9\nmore\nrows 5\n")
    for shown in (["rows 6"], ["rows 5", "run 7"]):
        with pytest.raises(AssertionError, match="not printed"):
            compare(shown, "run 7 of 9\nrows 5\n")


def test_an_answer_is_compared_in_part_and_lists_in_full() -> None:
    answer = {"items": [{"name": "a", "id": 1}], "next": None}
    assert shortened(answer, {"items": [{"name": "a"}]}) == {"items": [{"name": "a"}]}
    assert shortened(answer, {"items": []}) != {"items": []}
    assert shortened(answer, {"absent": 1}) != {"absent": 1}


def test_what_changes_the_machine_is_not_run_by_mistake() -> None:
    assert OUTSIDE.search("cd x\nsudo apt-get install y")
    assert not OUTSIDE.search("vitrina run docker")
