"""Which columns of changed rows the log keeps: those that the live marts need, once all of them have said which.

A follower says what it needs in its checkpoint, and looks at `images` of the capture before it relies on it. The
capture says what it will keep, looks again at what is needed, and only then leaves anything out: one of the two sees
the other. Should a row still come without a column that matters, its follower compares in full.
"""

import time
from collections.abc import Iterable

from vitrina.capture.changes import Columns, Tap
from vitrina.log import log
from vitrina.meta.repos.captures import Capture, CaptureRepo

HURRY_SECONDS = 5.0  # then a wish is followed even among changes that are not stored yet


def suffices(kept: Columns | None, wanted: Columns | None) -> bool:
    """Whether what is kept is enough; None is everything."""
    if kept is None or wanted is None:
        return kept is None
    return all(set(names) <= set(kept.get(relation, ())) for relation, names in wanted.items())


def together(needs: Iterable[Columns | None]) -> Columns | None:
    """What is enough for all; everything, if one does not say, or nobody is there to say."""
    union: dict[str, set[str]] = {}
    for columns in (found := list(needs)):
        if columns is None:
            return None
        for relation, names in columns.items():
            union.setdefault(relation, set()).update(names)
    return {relation: sorted(names) for relation, names in union.items()} if found else None


class Images:
    """What one capture keeps."""

    def __init__(self, repo: CaptureRepo, held: Capture, tap: Tap, patience: float) -> None:
        self._repo = repo
        self._held = held
        self._tap = tap
        self._patience = patience
        self._is_able = True  # the tap can leave columns out
        self._kept: Columns | None = held.images
        self._wish: Columns | None = held.images
        self._wished = time.monotonic()

    def start(self) -> None:
        """As a predecessor left it; all columns, if the tap can leave none out."""
        self._is_able = self._tap.want(self._kept)
        if not self._is_able and self._kept is not None:
            self._keep(None)

    def look(self, *, at_rest: bool) -> None:
        """More as soon as it is needed; less when that has been enough for a while. `at_rest`: nothing is decoded and
        not stored."""
        if not self._is_able:
            return
        wish = self._wanted()
        if wish != self._wish:
            self._wish, self._wished = wish, time.monotonic()
        waited = time.monotonic() - self._wished
        if wish == self._kept:
            return
        if not suffices(self._kept, wish):
            if at_rest or waited > HURRY_SECONDS:
                self._tap.want(wish)
                self._keep(wish)
        elif at_rest and waited >= self._patience:
            self._narrow(wish)

    def _narrow(self, wish: Columns | None) -> None:
        before = self._kept
        self._keep(wish)
        if suffices(wish, self._wanted()):
            self._tap.want(wish)
        else:
            self._keep(before)

    def _keep(self, columns: Columns | None) -> None:
        self._repo.keep_images(self._held, columns)
        self._kept = columns
        log.info("images", source=self._held.source, columns="all" if columns is None else columns)

    def _wanted(self) -> Columns | None:
        return together(self._repo.needs(self._held.source))
