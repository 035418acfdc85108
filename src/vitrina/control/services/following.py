"""What can be known about a live mart before a run: what a change of each table means, and whether it is captured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vitrina.capture.identity import identity_columns
from vitrina.capture.installation import uncovered
from vitrina.domain.findings import Code, Finding
from vitrina.domain.pipeline import Plan
from vitrina.domain.wording import Data
from vitrina.engine.live.impact import as_captured
from vitrina.meta.repos.captures import Capture
from vitrina.planning import check_impact, vet_impact
from vitrina.settings import Settings
from vitrina.sources.source import Source
from vitrina.sql.live import LiveView, understand


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
        yield replace(warning, where="source_query")
    yield _captured(reader, source, view.tables, capture)


def _verdicts(reader: Source, view: LiveView, capture: Capture | None) -> Iterator[Finding]:
    """As the source is captured, or would be: triggers tell old rows whole, the WAL what the replica identity has."""
    by_wal = capture is None or capture.kind == "wal"
    known = identity_columns(reader.catalogue.conn, view.tables) if by_wal else None
    for occurrence in view.occurrences:
        told = occurrence if known is None else as_captured(occurrence, known.get(occurrence.table, ()))
        yield Finding("warning" if told.verdict == "everything" else "info", "mode", told.code, told.data)


def _captured(reader: Source, source: str, tables: Sequence[str], capture: Capture | None) -> Finding:
    if capture is None or capture.installed_at is None:
        missing = dict.fromkeys(tables, "it is not captured")
    else:
        missing = uncovered(reader.catalogue.conn, capture, tables)
    if not missing:
        return Finding("info", "mode", Code.CAPTURED, {"tables": tables})
    data: Data = {"source": source, "missing": dict(sorted(missing.items())), "names": ",".join(sorted(missing))}
    return Finding("warning", "mode", Code.NOT_CAPTURED, data)
