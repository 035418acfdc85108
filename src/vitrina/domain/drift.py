"""Drift of a mart outside of the warehouse: its query gives other columns than runs have written so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vitrina.domain.findings import Code
from vitrina.domain.wording import Because, Data, Therefore


@dataclass(frozen=True)
class Drift:
    """What has become of the columns. A new set of documents because of them needs somebody's word."""

    changed: Sequence[str]  # of another type, or gone
    added: Sequence[str]

    @classmethod
    def between(cls, before: Mapping[str, str], now: Mapping[str, str]) -> "Drift":
        """From columns to their types; where nothing was written before, nothing drifts."""
        changed = sorted(name for name, type_ in before.items() if now.get(name) != type_)
        return cls(changed, sorted(set(now) - set(before)) if before else [])

    def is_refused(self, on_drift: str) -> bool:
        """Whether a run stops at it, unless it was asked to rebuild."""
        return bool(self.changed) or (bool(self.added) and on_drift != "add")

    @property
    def code(self) -> Code:
        """As a finding."""
        return Code.DRIFT if self.changed else Code.DRIFT_ADDS

    @property
    def data(self) -> Data:
        """Of the finding."""
        return {"columns": [*self.changed, *self.added]}

    @property
    def because(self) -> Because:
        """What it is."""
        return Because(self.code, self.data)

    @property
    def therefore(self) -> Because:
        """What lets a run go on."""
        return Therefore(self.code, self.data)
