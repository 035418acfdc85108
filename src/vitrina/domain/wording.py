"""Codes and their words. A code is for programs and stays; its English text is for people and may change."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Self, TypeAlias

Json: TypeAlias = str | int | float | bool | Sequence["Json"] | Mapping[str, "Json"] | None
Data: TypeAlias = Mapping[str, Json]
NESTED = "reason"  # in data: a text of ours that has a translation of its own, as far as there is one


class Worded(StrEnum):
    """A code with a text, whose places in braces are filled from data."""

    text: str
    remedy: str

    def __new__(cls, code: str, text: str, remedy: str = "") -> Self:
        """The code is the value, and the string itself."""
        member = str.__new__(cls, code)
        member._value_, member.text, member.remedy = code, text, remedy
        return member

    def of(self, **data: Json) -> "Because":
        """This, here."""
        return Because(self, data)


class Because(str):
    """A reason: its code and data, and in English what it says."""

    code: Worded
    data: Data

    def __new__(cls, code: Worded, data: Data) -> Self:
        """The text is filled from the data."""
        made = str.__new__(cls, fill(cls._text_of(code), data))
        made.code, made.data = code, data
        return made

    def __getnewargs__(self) -> tuple[Worded, Data]:  # type: ignore[override]
        return self.code, self.data

    @staticmethod
    def _text_of(code: Worded) -> str:
        return code.text

    def said_in(self, translate: Callable[[str], str]) -> str:
        """In another language."""
        return fill(self._text_of(self.code), self.data, translate)


class Therefore(Because):
    """What a code says to do about it."""

    @staticmethod
    def _text_of(code: Worded) -> str:
        return code.remedy


def fill(text: str, data: Mapping[str, object], translate: Callable[[str], str] = str) -> str:
    """A text, or its translation, with the data in its places; a code among the data by its own text."""
    return translate(text).format(**{name: _shown(name, value, data, translate) for name, value in data.items()})


def _shown(name: str, value: object, data: Mapping[str, object], translate: Callable[[str], str]) -> object:
    if isinstance(value, Because):
        return value.said_in(translate)
    if isinstance(value, Worded):
        others = {key: other for key, other in data.items() if other is not value}
        return fill(value.text, others, translate)
    if isinstance(value, str):
        return translate(value) if name == NESTED else value
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {item}" for key, item in value.items())
    return _listed(value, translate) if isinstance(value, Sequence) else value


def _listed(items: Sequence[object], translate: Callable[[str], str]) -> str:
    """One after the other; reasons and keys of several columns have commas of their own."""
    reasons = [item.said_in(translate) for item in items if isinstance(item, Because)]
    if reasons:
        return "; ".join(reasons)
    keys = [", ".join(f"{name} = {part}" for name, part in item.items()) for item in items if isinstance(item, Mapping)]
    return "; ".join(keys) if keys else ", ".join(map(str, items))
