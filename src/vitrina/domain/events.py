"""What a run says: an event each, kept by its code. The codes are listed in docs/reference.md."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypedDict

from vitrina.domain.findings import Code, Finding
from vitrina.domain.reasons import beside, beside_revived, revived
from vitrina.domain.refusals import REFUSALS
from vitrina.domain.wording import Because, Data, Json, Worded, fill


class Event(Worded):
    """The code, and what it is for people. Older programs kept the text instead."""

    # how the run goes
    STARTED = "started", "started"
    SUCCEEDED = "succeeded", "succeeded"
    FAILED = "failed", "failed"
    RETRIED = "retried", "failed, trying again"
    PAUSED = "paused", "paused"
    PAUSED_AT_ONCE = "paused_at_once", "paused at once"
    HANDED_BACK = "handed_back", "handed back: this runner is stopping"
    SLOT_GIVEN_BACK = "slot_given_back", "gives its slot back until that has ended"
    WAITS = "waits", "waits until that answers"
    RELOADED = "reloaded", "configuration reloaded"
    CHECKPOINT_DROPPED = "checkpoint_dropped", "checkpoint dropped: the configuration has changed"
    FINDING = "finding", "found"
    FINISHED = "finished", "finished"
    # finding and converging
    MART_READY = "mart_ready", "mart is ready"
    DEPENDENCE_SEEN = "dependence_seen", "looked at what it depends on"
    DEPENDENCE_SEEN_AGAIN = "dependence_seen_again", "looked again at what it depends on"
    LOAD_FOUND = "load_found", "found what to load"
    LOADED = "loaded", "loaded"
    STAGED = "staged", "staged"
    COMPARED = "compared", "compared"
    WRITTEN = "written", "written"
    UPSERTED = "upserted", "upserted"
    DELETED = "deleted", "deleted"
    PUBLISHED = "published", "published"
    REBUILT = "rebuilt", "rebuilt"
    CHECKED = "checked", "asked its checks"
    CHECK_BROKEN = "check_broken", "a check is broken"
    CHANGED = "changed", "kept what it changed of some rows"
    WINDOW = "window", "window"
    COMPARING = "comparing", "comparing in full"
    COMPARING_WAITS = "comparing_waits", "waits to compare in full: its tables are still changing"
    STEPPED_DOWN = "stepped_down", "steps down for a run"
    COMPARING_LATER = "comparing_later", "the query gives no rows; it is compared once it gives some"
    # a live mart
    BARRIER_SET = "barrier_set", "waiting for transactions that were open"
    BARRED = "barred", "waits for a transaction that was open"
    LIVE = "live", "live"
    JUDGED_ANEW = "judged_anew", "judged anew"
    TOUCHED_FOUND = "touched_found", "found what is touched"
    APPLIED = "applied", "applied"
    FOLLOWED = "followed", "followed"
    AUDIT_BEYOND = "audit_beyond", "looked beyond"
    AUDIT_READ = "audit_read", "read a range"
    AUDIT_FOUND = "audit_found", "audit: rows were wrong that no change explains, and are put right"
    AUDIT_PUT_OFF = "audit_put_off", "audit put off"
    # an index
    INDEX_SOUGHT = "index_sought", "looking at the index"
    INDEX_BEGUN = "index_begun", "new index"
    INDEX_CREATED = "index_created", "index created"
    INDEX_VERIFIED = "index_verified", "verified"
    INDEX_GIVEN_UP = "index_given_up", "index given up"
    INDEX_SERVED = "index_served", "index is served"
    INDEX_REMOVED = "index_removed", "old index removed"
    INDEX_MIRRORED = "index_mirrored", "looked at the index"
    DOUBT_FOUND = "doubt_found", "found what was on its way"
    SENT_AGAIN = "sent_again", "sent again"
    CONFIRMED = "confirmed", "confirmed"
    LEASE_SEEN = "lease_seen", "looked at the lease"
    # inside an engine
    ENGINE_BEGUN = "engine_begun", "the engine takes over"
    ENGINE_WORKS = "engine_works", "the engine is at work"
    ENGINE_WRITTEN = "engine_written", "written by the engine"


PASSING = (
    Event.STARTED,
    Event.MART_READY,
    Event.CHECKED,
    Event.SUCCEEDED,
    Event.FOLLOWED,
)  # not worth keeping of a burst


EVENTS = {event.value: event for event in Event}
CODES: dict[str, Worded] = {code.value: code for code in (*Code, *REFUSALS)}


class Measured(TypedDict, total=False):
    """The fields that programs read; an event may have others, for people."""

    done: int  # of what was found, so far
    of: int
    rows_read: int
    rows_written: int
    rows_deleted: int
    rows_unchanged: int
    ms: float  # that the step took


class Said(TypedDict):
    """An event as it is kept."""

    id: int
    at: datetime
    level: str
    event: str
    fields: Measured


def fields_of(finding: Finding) -> dict[str, Json]:
    """A finding as the fields of an event."""
    said = finding.as_json()
    return {name: said[name] for name in ("message", "remedy", "code", "data")}


def as_stored(fields: Data) -> Data:
    """The fields of an event, its reason by its code too."""
    return beside(fields, "why")


def shown(
    event: str, fields: Mapping[str, object], translate: Callable[[str], str] = str
) -> tuple[str, Mapping[str, object]]:
    """An event for people: its text, and the fields beside it. What an older program kept is its own text."""
    known = EVENTS.get(event)
    if known is Event.CHANGED:  # the rows themselves are no text
        rows = fields.get("changes")
        return translate(known.text), {"rows": len(rows)} if isinstance(rows, list) else {}
    if known is not Event.FINDING:
        return translate(known.text if known else event), _with_reason(fields, translate)
    code, data, said = (
        CODES.get(str(fields.get("code"))),
        revived(fields.get("data")),
        (fields.get("message"), fields.get("remedy")),
    )
    if code and isinstance(data, Mapping):
        said = fill(code.text, data, translate), fill(code.remedy, data, translate)
    return str(said[0]), {"remedy": said[1]} if said[1] else {}


def _with_reason(fields: Mapping[str, object], translate: Callable[[str], str]) -> Mapping[str, object]:
    """The fields beside an event: why, in words alone."""
    if "because" not in fields:
        return fields
    found = beside_revived(fields, "why")
    why = found.get("why")
    return {**found, "why": why.said_in(translate)} if isinstance(why, Because) else found


def named(text: str, translate: Callable[[str], str]) -> list[Event]:
    """The events whose words hold a text, in English or as they are translated."""
    wanted = text.lower()
    return [event for event in Event if wanted in f"{event.text}\n{translate(event.text)}".lower()]
