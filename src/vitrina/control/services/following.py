"""What can be known about a live mart before a run: what a change of each table means, and whether it is captured."""

from collections.abc import Iterator, Mapping, Sequence

from vitrina.capture.identity import identity_columns
from vitrina.capture.installation import uncovered
from vitrina.control.findings import Finding
from vitrina.domain.pipeline import Plan
from vitrina.engine.live.impact import remedy, untold
from vitrina.meta.repos.captures import Capture
from vitrina.planning import check_impact, vet_impact
from vitrina.settings import Settings
from vitrina.sources.source import Source
from vitrina.sql.live import LiveView, Occurrence, understand

INSTALL = "vitrina capture install --source {} --tables {}"


def with_own_impact(reader: Source, plan: Plan, key: Sequence[str], view: LiveView, settings: Settings) -> LiveView:
    """The view with the pipeline's own impact queries in it; a ConfigError if the guard, or their form, refuses one."""
    if not plan.impact:
        return view
    checked = plan.model_copy(update={"impact": check_impact(plan, settings)})
    vet_impact(reader, checked, settings)
    return understand(*reader.catalogue, plan.select, key, checked.impact)


def live_findings(reader: Source, source: str, view: LiveView, capture: Capture | None) -> Iterator[Finding]:
    """A verdict for each table, what makes the mart flicker, and what is not captured."""
    yield from dict.fromkeys(_verdicts(reader, view, capture))
    for warning in view.warnings:
        yield Finding("warning", "source_query", warning.message, warning.remedy)
    yield _captured(reader, source, view.tables, capture)


def _verdicts(reader: Source, view: LiveView, capture: Capture | None) -> Iterator[Finding]:
    """As the source is captured, or would be: triggers tell old rows whole, the WAL what the replica identity has."""
    by_wal = capture is None or capture.kind == "wal"
    known = identity_columns(reader.catalogue.conn, view.tables) if by_wal else None
    for occurrence in view.occurrences:
        yield _verdict(occurrence, known)


def _verdict(occurrence: Occurrence, known: Mapping[str, Sequence[str]] | None) -> Finding:
    why = untold(occurrence, known.get(occurrence.table, ())) if known is not None else ""
    if why:
        return Finding("warning", "mode", why, remedy(occurrence.table))
    if occurrence.verdict == "everything":
        own = f"tie it to the key in the query, or name the keys in impact: {{{occurrence.table}: SELECT …}}"
        return Finding("warning", "mode", occurrence.reason, own)
    return Finding("info", "mode", occurrence.reason)


def _captured(reader: Source, source: str, tables: Sequence[str], capture: Capture | None) -> Finding:
    if capture is None or capture.installed_at is None:
        missing = dict.fromkeys(tables, "it is not captured")
    else:
        missing = uncovered(reader.catalogue.conn, capture, tables)
    if not missing:
        return Finding("info", "mode", f"changes of {', '.join(tables)} are captured")
    said = "; ".join(f"{table}: {reason}" for table, reason in sorted(missing.items()))
    install = INSTALL.format(source, ",".join(sorted(missing)))
    return Finding("warning", "mode", f"changes are not captured, so a run would fail: {said}", install)
