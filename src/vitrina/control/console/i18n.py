"""English and Russian. The English text is the key; what has no translation is shown in English."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "ru")
TRANSLATIONS = Path(__file__).parent / "translations"
GROUPING = {"en": ",", "ru": "\N{NO-BREAK SPACE}"}


@dataclass(frozen=True)
class Words:
    """The words of one language, and how it writes numbers."""

    language: str

    def __call__(self, text: str, **values: Any) -> str:
        """A text in this language, with its places filled in."""
        said = catalogue(self.language).get(text, text)
        return said.format(**values) if values else said

    def number(self, value: float | None) -> str:
        """With groups of three; a fraction only where it tells something."""
        if value is None:
            return "–"
        shown = f"{value:,.1f}" if isinstance(value, float) and abs(value) < 10 else f"{value:,.0f}"
        point = "," if self.language == "ru" else "."
        return shown.replace(".", "\0").replace(",", GROUPING[self.language]).replace("\0", point)

    def size(self, count: float | None) -> str:
        """Bytes, in the unit that reads best."""
        if count is None:
            return "–"
        units = ["B", "kB", "MB", "GB", "TB"]
        while abs(count) >= 1024 and len(units) > 1:
            count, units = count / 1024, units[1:]
        return f"{self.number(count)} {self(units[0])}"

    def duration(self, seconds: float | None) -> str:
        """The two largest units: 0.2 s, 3 min 20 s, 2 h 5 min."""
        if seconds is None:
            return "–"
        if 0 < seconds < 0.1:
            return f"{max(1, round(seconds * 1000))} {self('ms')}"
        if seconds < 10:
            return f"{self.number(float(seconds))} {self('s')}"
        left = round(seconds)
        parts: list[str] = []
        for size, unit in ((86_400, self("d")), (3_600, self("h")), (60, self("min")), (1, self("s"))):
            count, left = divmod(left, size)
            if count or parts:
                parts.append(f"{count} {unit}")
        return " ".join(parts[:2])


def choose(cookie: str | None, accepted: str) -> str:
    """The language that was chosen, else the browser's, else English."""
    if cookie in LANGUAGES:
        return str(cookie)
    ranked = sorted(accepted.split(","), key=_weight, reverse=True)
    for item in ranked:
        language = item.split(";")[0].strip().lower().split("-")[0]
        if language in LANGUAGES:
            return language
    return LANGUAGES[0]


@cache
def catalogue(language: str) -> dict[str, str]:
    """English to a language; empty for English."""
    file = TRANSLATIONS / f"{language}.json"
    words: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return words


def _weight(item: str) -> float:
    _, _, weight = item.partition(";q=")
    try:
        return float(weight or 1)
    except ValueError:
        return 0.0
