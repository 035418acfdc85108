"""What has become of the things that a mart depends on, in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from vitrina.domain.reasons import Reason
from vitrina.domain.wording import Because
from vitrina.sql.dependencies import Facts, Needs

Fact: TypeAlias = Mapping[str, Any]
# What only decides how the query is read: it is judged anew, and the mart is as right as it was. Should it be read
# otherwise, its meaning has changed, and that is compared.
JUDGED = ("constraints", "name", "casts")
MOST = 3  # that are named; the others are counted
TRAITS = {
    "volatility": Reason.OTHER_VOLATILITY,
    "strict": Reason.OTHER_STRICTNESS,
    "definer": Reason.OTHER_RIGHTS,
    "settings": Reason.OTHER_SETTINGS,
    "extension": Reason.OTHER_EXTENSION,
}
SEARCH = {
    "configurations": Reason.SEARCH_CONFIGURED,
    "mappings": Reason.SEARCH_MAPPED,
    "dictionaries": Reason.SEARCH_WORDS,
}
THINGS = {
    "constraints": Reason.A_TABLE,
    "type": Reason.A_TYPE,
    "function": Reason.A_FUNCTION,
    "operator": Reason.AN_OPERATOR,
    "role": Reason.A_ROLE,
    "setting": Reason.A_SETTING,
    "collation": Reason.A_COLLATION,
    "text search": Reason.A_TEXT_SEARCH,
}


@dataclass(frozen=True)
class Difference:
    """One thing that is not what it was."""

    key: str
    why: Because

    @property
    def means_comparison(self) -> bool:
        """Whether rows of the mart may be wrong for it."""
        return self.key.split(":")[0] not in JUDGED


def differences(before: Facts, now: Facts, needs: Needs) -> list[Difference]:
    """Of the things that matter to a query, those that are otherwise now."""
    keys = (key for key in needs.wanted() if before.get(key) != now.get(key))
    return [Difference(key, why) for key in keys for why in _reasons(key, before.get(key), now.get(key))]


def in_words(found: list[Difference]) -> str:
    """The first few, as one reason; what needs a comparison before the rest. Empty if nothing was found."""
    ordered = list(dict.fromkeys(d.why for d in sorted(found, key=lambda d: not d.means_comparison)))
    if len(ordered) > MOST:
        return Reason.CHANGED_AND_MORE.of(changes=ordered[:MOST], more=len(ordered) - MOST)
    return Reason.CHANGED.of(changes=ordered) if ordered else ""


def _reasons(key: str, before: Fact | None, now: Fact | None) -> Iterator[Because]:
    kind = key.split(":")[0]
    named = before or now or {}
    if kind in ("name", "casts"):
        yield Reason.MAY_MEAN_ANOTHER.of(name=named["name"]) if kind == "name" else Reason.CASTS_CHANGED.of()
    elif before is None or now is None:
        yield (Reason.IS_GONE if now is None else Reason.IS_NEW).of(thing=_called(kind, named))
    else:
        found = list(WORDS[kind](before, now))
        yield from found or [Reason.ALTERED.of(thing=_called(kind, before))]


def _called(kind: str, fact: Fact) -> Because:
    if kind == "relation":
        thing = {"v": Reason.A_VIEW, "c": Reason.A_TYPE}.get(fact["kind"], Reason.A_TABLE)
    elif kind == "type" and fact["kind"] == "e":
        thing = Reason.AN_ENUM
    else:
        thing = THINGS[kind]
    return thing.of(name=fact["name"])


def _relation(before: Fact, now: Fact) -> Iterator[Because]:
    called = _called("relation", before)
    if before["name"] != now["name"]:
        yield Reason.RENAMED.of(thing=called, name=now["name"])
    if any(before[name] != now[name] for name in ("definition", "options", "kind")):
        yield Reason.REPLACED.of(thing=called)
    if before["heirs"] != now["heirs"]:
        yield Reason.HEIRS.of(table=before["name"])
    yield from _columns(before, now)
    yield from _policies(before, now)
    if before["owner"] != now["owner"] and before["policed"] == now["policed"]:
        yield Reason.OTHER_OWNER.of(thing=called)


def _columns(before: Fact, now: Fact) -> Iterator[Because]:
    old, new, name = before["columns"] or {}, now["columns"] or {}, before["name"]
    for number in sorted({*old, *new}, key=int):
        was, is_ = old.get(number), new.get(number)
        if was is None or is_ is None:
            yield (Reason.COLUMN_GONE if was else Reason.COLUMN_NEW).of(column=(was or is_ or {})["name"], table=name)
        elif was["name"] != is_["name"]:
            yield Reason.COLUMN_RENAMED.of(column=was["name"], table=name, name=is_["name"])
        elif was["expression"] != is_["expression"] or was["generated"] != is_["generated"]:
            yield Reason.COLUMN_COMPUTED.of(column=was["name"], table=name)
        elif was != is_:
            yield Reason.COLUMN_RETYPED.of(column=was["name"], table=name)


def _policies(before: Fact, now: Fact) -> Iterator[Because]:
    if before["policed"] != now["policed"]:
        yield (Reason.POLICED if now["policed"] else Reason.UNPOLICED).of(table=before["name"])
        return
    if before["forced"] != now["forced"]:
        yield (Reason.FORCED if now["forced"] else Reason.UNFORCED).of(table=before["name"])
    old, new = before["policies"] or {}, now["policies"] or {}
    for policy in sorted({*old, *new}):
        if old.get(policy) != new.get(policy):
            lost = Reason.POLICY_CHANGED if policy in new else Reason.POLICY_GONE
            yield (lost if policy in old else Reason.POLICY_NEW).of(policy=policy, table=before["name"])


def _constraints(before: Fact, now: Fact) -> Iterator[Because]:
    name = before["name"]
    if name != now["name"]:
        yield Reason.RENAMED.of(thing=_called("constraints", before), name=now["name"])
    for column in before["required"]:
        if column not in now["required"]:
            yield Reason.MAY_BE_NULL.of(column=column, table=name)
    for column in now["required"]:
        if column not in before["required"]:
            yield Reason.NEVER_NULL.of(column=column, table=name)
    for key in before["keys"]:
        if key not in now["keys"]:
            yield Reason.MAY_REPEAT.of(columns=key, table=name)
    for key in now["keys"]:
        if key not in before["keys"]:
            yield Reason.UNIQUE_NOW.of(columns=key, table=name)
    if before["primary"] != now["primary"]:
        yield Reason.OTHER_PRIMARY.of(table=name)


def _type(before: Fact, now: Fact) -> Iterator[Because]:
    called = _called("type", before)
    if before["name"] != now["name"]:
        yield Reason.RENAMED.of(thing=called, name=now["name"])
    old, new = (dict(fact["labels"] or []) for fact in (before, now))
    for id_ in {**old, **new}:
        if id_ in old and id_ in new and old[id_] != new[id_]:
            yield Reason.LABEL_RENAMED.of(label=old[id_], thing=called, name=new[id_])
        elif (id_ in old) != (id_ in new):
            yield (Reason.LABEL_GONE if id_ in old else Reason.LABEL_NEW).of(label=(old | new)[id_], thing=called)
    if before["checks"] != now["checks"] or before["required"] != now["required"]:
        yield Reason.OTHER_VALUES.of(thing=called)


def _function(before: Fact, now: Fact) -> Iterator[Because]:
    called = _called("function", before)
    if before["name"] != now["name"]:
        yield Reason.RENAMED.of(thing=called, name=now["name"])
    if any(before[name] != now[name] for name in ("body", "language", "aggregate", "gives", "takes", "set")):
        yield Reason.REPLACED.of(thing=called)
    for name, other in TRAITS.items():
        if before[name] != now[name]:
            yield other.of(thing=called)


def _role(before: Fact, now: Fact) -> Iterator[Because]:
    called = _called("role", before)
    for name, is_, no_longer in (
        ("super", Reason.SUPERUSER, Reason.NO_SUPERUSER),
        ("exempt", Reason.EXEMPT, Reason.NOT_EXEMPT),
    ):
        if before[name] != now[name]:
            yield (is_ if now[name] else no_longer).of(thing=called)
    if before["acts for"] != now["acts for"] and before["super"] == now["super"]:
        yield Reason.OTHER_MEMBERSHIP.of(thing=called)


def _setting(before: Fact, now: Fact) -> Iterator[Because]:
    yield Reason.SET_OTHERWISE.of(setting=before["name"], now=now["value"], before=before["value"])


def _collation(before: Fact, now: Fact) -> Iterator[Because]:
    for name, reason in (("actual", Reason.LIBRARY_VERSION), ("version", Reason.COLLATION_VERSION)):
        if before[name] != now[name]:
            yield reason.of(name=before["name"], now=now[name], before=before[name])


def _text_search(before: Fact, now: Fact) -> Iterator[Because]:
    for name, reason in SEARCH.items():
        if before[name] != now[name]:
            yield reason.of()


WORDS = {
    "relation": _relation,
    "constraints": _constraints,
    "type": _type,
    "function": _function,
    "operator": lambda _before, _now: iter(()),
    "role": _role,
    "setting": _setting,
    "collation": _collation,
    "text search": _text_search,
}
