"""Labels of pipelines: `name:value`, or a name alone; what they may look like."""

import re
from collections.abc import Iterator
from typing import Any

from vitrina.domain.faults import Fault

PART = r"""[^\s\u0000-\u001f\u007f,:'"<>\[\]{}]+"""
LABEL = re.compile(f"{PART}(:{PART})?")
LONGEST, MOST = 100, 32


def read_labels(value: Any) -> Any:
    """Labels as people give them: a list, or a mapping of names to values. In their order, each once.

    What is no list is left as it is, for the model to refuse.
    """
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list | tuple):
        return value
    found = list(dict.fromkeys(text for item in value for text in _texts(item)))
    for text in found:
        if len(text) > LONGEST or not LABEL.fullmatch(text):
            raise ValueError(Fault.NO_LABEL.of(text=text))
    if len(found) > MOST:
        raise ValueError(Fault.MANY_LABELS.of(most=MOST, count=len(found)))
    return found


def _texts(item: Any) -> Iterator[str]:
    """`team: search` in a list is a mapping of its own to YAML, and what was meant is plain."""
    if not isinstance(item, dict):
        yield item if isinstance(item, str) else str(item)
        return
    for name, value in item.items():
        plain = str(value).lower() if isinstance(value, bool) else str(value)
        yield str(name) if value is None else f"{name}:{plain}"
