"""What has to change so that the store has what the files say. Computed here, once, for `plan` and `apply`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from vitrina.client import ClientError
from vitrina.control.services import plans
from vitrina.control.services.plans import differences
from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.domain.findings import Code, Finding, refused
from vitrina.domain.lifecycle import EDITABLE_UNDER_WAY, UNDER_WAY
from vitrina.domain.pipeline import Pipeline
from vitrina.files import Document

Json = dict[str, Any]
VERDICTS = (Code.REFRESHES_KEYS, Code.REFRESHES_PART, Code.REFRESHES_OWN)


@dataclass
class Edit:
    """One pipeline to create, update or delete."""

    action: Literal["create", "update", "delete"]
    name: str
    wanted: Pipeline | None = None
    stored: Json | None = None
    file: str = ""
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    findings: list[Json] = field(default_factory=list)

    @property
    def matters(self) -> bool:
        """Whether it touches what a run does, so that it has to be validated."""
        return self.action == "create" or bool(self.fields.keys() - EDITABLE_UNDER_WAY)

    @property
    def errors(self) -> list[Json]:
        """Why it cannot be done."""
        return [finding for finding in self.findings if finding["level"] == "error"]

    @property
    def ddl(self) -> list[str]:
        """What the next run will do to the target's definition."""
        return plans.ddl(self._found)

    @property
    def verdicts(self) -> list[str]:
        """What a change of each table means for a live mart."""
        return [finding["message"] for finding in self.findings if finding.get("code") in VERDICTS]

    @property
    def follows(self) -> str:
        """What the next run makes of it; empty if just what it would have done anyway, or if it cannot be done."""
        if self.errors:
            return ""
        if self.wanted is None:
            return "its history goes; the mart stays as it is"
        return plans.follows_each(self.wanted, self.stored["config"] if self.stored else None, self._found)

    @property
    def body(self) -> Json:
        """What the API is sent."""
        if self.action == "update":
            return {name: new for name, (_, new) in self.fields.items()}
        assert self.wanted is not None
        given = self.wanted.model_dump(mode="json")
        return given if "id" in self.wanted.model_fields_set else {k: v for k, v in given.items() if k != "id"}

    @property
    def _found(self) -> list[plans.FoundOf]:
        return [
            plans.FoundOf(finding.get("code", ""), finding.get("data", {}), finding.get("target") or "")
            for finding in self.findings
        ]

    def refuse(self, where: str, code: Code, **data: str) -> None:
        """It cannot be done, and why."""
        self.findings.append(Finding("error", where, code, data).as_json())

    def as_json(self) -> Json:
        """For programs."""
        return {
            "action": self.action,
            "name": self.name,
            "id": self.stored["id"] if self.stored else None,
            "file": self.file or None,
            "fields": {name: {"old": old, "new": new} for name, (old, new) in self.fields.items()},
            "ddl": self.ddl,
            "follows": self.follows,
            "findings": self.findings,
        }


@dataclass(frozen=True)
class Edits:
    """All of them, in an order in which none stands in another's way."""

    changes: list[Edit]
    unchanged: list[str]
    others: list[str]  # stored, not in the files, and kept

    @property
    def errors(self) -> list[Json]:
        """Why it cannot be done."""
        return [error for change in self.changes for error in change.errors]

    def count(self, action: str) -> int:
        """How many of a kind."""
        return sum(change.action == action for change in self.changes)

    def as_json(self) -> Json:
        """For programs."""
        return {
            "changes": [change.as_json() for change in self.changes],
            "unchanged": self.unchanged,
            "not_in_files": self.others,
        }


def compare(wanted: Sequence[tuple[Document, Pipeline]], stored: Sequence[Json], *, prune: bool) -> Edits:
    """The difference between files and store."""
    by_id, by_name = {row["id"]: row for row in stored}, {row["name"]: row for row in stored}
    changes, unchanged, seen = [], [], set()
    for document, pipeline in wanted:
        row = _match(document, pipeline, by_id, by_name)
        change = _change(document, pipeline, row)
        seen.add(row["id"] if row else "")
        if change:
            changes.append(change)
        else:
            unchanged.append(pipeline.name)
    left = [row for row in stored if row["id"] not in seen]
    deletes = [_deletion(row) for row in left] if prune else []
    return Edits(_in_order(deletes, changes, stored), unchanged, [] if prune else [row["name"] for row in left])


def parse_all(documents: Sequence[Document], unread: Sequence[VitrinaError] = ()) -> list[tuple[Document, Pipeline]]:
    """Every document, or one error with all that is wrong, beginning with what could not be read."""
    parsed, errors = [], list(unread)
    for document in documents:
        try:
            parsed.append((document, document.parse()))
        except VitrinaError as error:
            errors.append(error)
    errors += [ConfigError(said) for said in _twice(parsed)]
    if errors:
        findings = [refused("files", error).as_json() for error in errors]
        raise ClientError(errors[0].message, errors[0].remedy, findings=findings)
    return parsed


def targets_of(pipeline: Pipeline) -> list[str]:
    """Where it writes."""
    own = (pipeline.tasks[-1].target_table if pipeline.tasks else None) or pipeline.target_table
    return [target for target in (own, *pipeline.targets) if target]


def _twice(parsed: Sequence[tuple[Document, Pipeline]]) -> Iterator[str]:
    for what, values_of in (("name", lambda p: [p.name]), ("id", lambda p: [str(p.id)]), ("target", targets_of)):
        seen: dict[str, Document] = {}
        for document, pipeline in parsed:
            for value in values_of(pipeline):
                if value in seen:
                    yield f"two pipelines have the {what} {value!r}: in {seen[value].file} and in {document.file}"
                seen[value] = document


def _match(document: Document, pipeline: Pipeline, by_id: dict[str, Json], by_name: dict[str, Json]) -> Json | None:
    if "id" not in pipeline.model_fields_set:
        return by_name.get(pipeline.name)
    found = by_id.get(str(pipeline.id))
    if found is None and pipeline.name in by_name:
        other = by_name[pipeline.name]["id"]
        raise ClientError(
            f"{document.file}: there is a pipeline {pipeline.name!r} with another id, {other}",
            "take the id out of the file, or delete that pipeline first",
        )
    return found


def _change(document: Document, pipeline: Pipeline, row: Json | None) -> Edit | None:
    if row is None:
        return Edit("create", pipeline.name, pipeline, file=str(document.file))
    new = pipeline.model_copy(update={"id": UUID(row["id"])})
    fields = dict(differences(row["config"], pipeline.model_dump(mode="json")))
    change = Edit("update", row["name"], new, row, str(document.file), fields)
    if change.matters and _in_the_way(change, row):
        locked = ", ".join(sorted(fields.keys() - EDITABLE_UNDER_WAY))
        change.refuse("status", Code.UNDER_WAY, fields=locked, status=row["status"])
    return change if fields else None


def _in_the_way(change: Edit, row: Json) -> bool:
    """Whether a run is; of several targets a run of one that is concerned."""
    assert change.wanted is not None
    if not row.get("members"):
        return row["status"] in UNDER_WAY
    all_are, stay = bool(change.fields.keys() - EDITABLE_UNDER_WAY - {"targets"}), change.wanted.targets
    return any(member["status"] in UNDER_WAY and (all_are or member["target"] not in stay) for member in row["members"])


def _deletion(row: Json) -> Edit:
    change = Edit("delete", row["name"], stored=row)
    busy = [each["status"] for each in row.get("members") or [row] if each["status"] in UNDER_WAY]
    if busy:
        change.refuse("status", Code.DELETED_UNDER_WAY, status=busy[0])
    return change


def _in_order(deletes: list[Edit], others: list[Edit], stored: Sequence[Json]) -> list[Edit]:
    """Deletes first; then whatever finds its name and its target free."""
    gone = {change.name for change in deletes}
    held = {
        claim: row["name"] for row in stored if row["name"] not in gone for claim in _claims(row["name"], _kept(row))
    }
    ordered, waiting = list(deletes), list(others)
    while waiting:
        free = next((change for change in waiting if not _obstacles(change, held)), None)
        if free is None:
            for change in waiting:
                for (what, value), holder in _obstacles(change, held):
                    change.refuse(what, Code.TAKEN, value=value, holder=holder)
            return ordered + waiting
        waiting.remove(free)
        ordered.append(free)
        held = {claim: holder for claim, holder in held.items() if free.stored is None or holder != free.name}
        assert free.wanted is not None
        held |= dict.fromkeys(_claims(free.wanted.name, targets_of(free.wanted)), free.wanted.name)
    return ordered


def _obstacles(change: Edit, held: dict[tuple[str, str], str]) -> list[tuple[tuple[str, str], str]]:
    assert change.wanted is not None
    mine = change.name if change.stored else None
    claims = _claims(change.wanted.name, targets_of(change.wanted))
    return [(claim, held[claim]) for claim in claims if held.get(claim, mine) != mine]


def _kept(row: Json) -> list[str]:
    return [row["target"]] if row["target"] else [member["target"] for member in row.get("members", ())]


def _claims(name: str, targets: Sequence[str]) -> Iterable[tuple[str, str]]:
    return [("name", name), *(("target_table", target) for target in targets)]
