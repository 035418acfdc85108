"""Limits of what a statement may use up: whoever exceeds one is told by which setting, and what to do."""

from collections.abc import Iterator

from psycopg import Error, errors

from vitrina.domain.errors import VitrinaError
from vitrina.settings import Settings

REMEDIES: dict[type[BaseException], str] = {
    errors.QueryCanceled: "a statement may take VITRINA_STATEMENT_TIMEOUT_SECONDS ({time:g} s): give it more, or have"
    " it do less at once; or somebody has cancelled it",
    errors.LockNotAvailable: "a lock is waited for VITRINA_LOCK_TIMEOUT_SECONDS ({lock:g} s): see who holds it",
    errors.OutOfMemory: "lower VITRINA_FIND_WORK_MEM ({find}) or VITRINA_WRITE_WORK_MEM ({write})",
    errors.DiskFull: "free some space; VITRINA_TEMP_FILE_LIMIT ({files}) bounds what one process of it may fill",
}


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What it comes from, over everybody who has passed it on."""
    seen, cause = {error}, error.__cause__
    while cause is not None and cause not in seen:
        yield cause
        seen.add(cause)
        cause = cause.__cause__


def name_limit(error: VitrinaError, settings: Settings) -> None:
    """Give an error the setting that bounds what was exceeded as its remedy, if it is one of these: it is of more use
    than the server's hint."""
    causes = [*_causes(error)]
    kinds, hints = {*map(type, causes)}, {cause.diag.message_hint for cause in causes if isinstance(cause, Error)}
    found = next((text for kind, text in REMEDIES.items() if kind in kinds), None)
    if found is None or (error.remedy and error.remedy not in hints):
        return
    error.remedy = found.format(
        time=settings.statement_timeout_seconds,
        lock=settings.lock_timeout_seconds,
        find=settings.find_work_mem,
        write=settings.write_work_mem or "as the server has it",
        files=settings.temp_file_limit,
    )
