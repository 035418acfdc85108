"""Errors, grouped by what the caller does next.

VitrinaError
├── ConfigError        fix the configuration, the query or the set-up; trying again cannot help
├── RetryableError     try again: a deadlock, a timeout, a row that appeared meanwhile
├── FatalError         stop: the data or the sink is in a state that needs a person
├── LeaseLost          somebody else has the pipeline now; write nothing more
└── DatabaseLost       the connection is gone; end the tick and let recovery take over
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Self

from vitrina.domain.faults import Part
from vitrina.domain.wording import Because, Data, Json, Therefore, Worded, fill


class VitrinaError(Exception):
    """An error with a message for people: what is wrong, and what to do about it."""

    neighbour = ""  # who is away, if that is what is wrong: a source's name, or a sink's prefix
    code: Worded | None = None  # for programs, where it has one, with the data of its texts
    data: Data = MappingProxyType({})
    at = 0  # where in the statement it is wrong, in characters from 1; 0: that is not known

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    @classmethod
    def of(cls, code: Worded, /, at: int = 0, **data: Json) -> Self:
        """By its code, whose texts are message and remedy."""
        error = cls(fill(code.text, data), fill(code.remedy, data))
        error.code, error.data, error.at = code, data, at
        return error

    @classmethod
    def like(cls, other: "VitrinaError") -> Self:
        """What another says, to who has to do something else about it."""
        error = cls(other.message, other.remedy)
        error.code, error.data, error.at = other.code, other.data, other.at
        return error

    def said_in(self, translate: Callable[[str], str]) -> tuple[str, str]:
        """Message and remedy in another language, if it has a code."""
        if self.code is None:
            return translate(self.message), translate(self.remedy)
        return fill(self.code.text, self.data, translate), fill(self.code.remedy, self.data, translate)

    @property
    def because(self) -> str:
        """The message, for the data of another error that says more about it; by its code, if it has one."""
        return Because(self.code, self.data) if self.code else self.message

    @property
    def whole(self) -> str:
        """Both, in one sentence."""
        return Part.WITH_WAY.of(message=self.because, way=self.therefore) if self.remedy else self.because

    @property
    def therefore(self) -> str:
        """The remedy, likewise."""
        return Therefore(self.code, self.data) if self.code else self.remedy

    def __str__(self) -> str:
        return f"{self.message} — {self.remedy}" if self.remedy else self.message


class ConfigError(VitrinaError):
    """Fix the configuration, the query or the set-up; trying again cannot help."""

    def __init__(self, message: str, remedy: str = "", at: int = 0) -> None:
        super().__init__(message, remedy)
        self.at = at


class RetryableError(VitrinaError):
    """Trying again may cure it."""


class FatalError(VitrinaError):
    """The data or the sink needs a person."""


class LeaseLost(VitrinaError):
    """Somebody else has the pipeline now; write nothing more."""


class DatabaseLost(VitrinaError):
    """The connection to a database is gone."""
