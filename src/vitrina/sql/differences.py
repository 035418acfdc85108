"""What has become of the things that a mart depends on, in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from vitrina.sql.dependencies import Facts, Needs

Fact: TypeAlias = Mapping[str, Any]
# What only decides how the query is read: it is judged anew, and the mart is as right as it was. Should it be read
# otherwise, its meaning has changed, and that is compared.
JUDGED = ("constraints", "name", "casts")
MOST = 3  # that are named; the others are counted
TRAITS = {
    "volatility": "another volatility",
    "strict": "another way with NULLs",
    "definer": "other rights to run with",
    "settings": "other settings",
    "extension": "another version of its extension",
}


@dataclass(frozen=True)
class Difference:
    """One thing that is not what it was."""

    key: str
    words: str

    @property
    def means_comparison(self) -> bool:
        """Whether rows of the mart may be wrong for it."""
        return self.key.split(":")[0] not in JUDGED


def differences(before: Facts, now: Facts, needs: Needs) -> list[Difference]:
    """Of the things that matter to a query, those that are otherwise now."""
    keys = (key for key in needs.wanted() if before.get(key) != now.get(key))
    return [Difference(key, words) for key in keys for words in _words(key, before.get(key), now.get(key))]


def in_words(found: list[Difference]) -> str:
    """The first few; what needs a comparison before the rest."""
    ordered = list(dict.fromkeys(d.words for d in sorted(found, key=lambda d: not d.means_comparison)))
    more = len(ordered) - MOST
    return "; ".join([*ordered[:MOST], *([f"and {more} more"] if more > 0 else [])])


def _words(key: str, before: Fact | None, now: Fact | None) -> Iterator[str]:
    kind = key.split(":")[0]
    named = before or now or {}
    if kind in ("name", "casts"):
        yield f"{named['name']} may mean another function now" if kind == "name" else "casts were made or dropped"
    elif before is None or now is None:
        yield f"{_called(kind, named)} {'is gone' if now is None else 'is new'}"
    else:
        found = list(WORDS[kind](before, now))
        yield from found or [f"{_called(kind, before)} was altered"]


def _called(kind: str, fact: Fact) -> str:
    if kind == "relation":
        kind = {"v": "the view", "c": "the type"}.get(fact["kind"], "the table")
        return f"{kind} {fact['name']}"
    if kind == "type" and fact["kind"] == "e":
        return f"the enum {fact['name']}"
    return {"constraints": "the table"}.get(kind, f"the {kind}") + f" {fact['name']}"


def _relation(before: Fact, now: Fact) -> Iterator[str]:
    called = _called("relation", before)
    if before["name"] != now["name"]:
        yield f"{called} was renamed to {now['name']}"
    if any(before[name] != now[name] for name in ("definition", "options", "kind")):
        yield f"{called} was replaced"
    if before["heirs"] != now["heirs"]:
        yield f"tables inherit from {before['name']} now, or no longer"
    yield from _columns(before, now)
    yield from _policies(before, now)
    if before["owner"] != now["owner"] and before["policed"] == now["policed"]:
        yield f"{called} has another owner"


def _columns(before: Fact, now: Fact) -> Iterator[str]:
    old, new, name = before["columns"] or {}, now["columns"] or {}, before["name"]
    for number in sorted({*old, *new}, key=int):
        was, is_ = old.get(number), new.get(number)
        if was is None or is_ is None:
            yield f"column {(was or is_ or {})['name']} of {name} {'is gone' if was else 'is new'}"
        elif was["name"] != is_["name"]:
            yield f"column {was['name']} of {name} was renamed to {is_['name']}"
        elif was["expression"] != is_["expression"] or was["generated"] != is_["generated"]:
            yield f"column {was['name']} of {name} is computed otherwise"
        elif was != is_:
            yield f"column {was['name']} of {name} has another type"


def _policies(before: Fact, now: Fact) -> Iterator[str]:
    if before["policed"] != now["policed"]:
        yield f"row-level security of {before['name']} was {'enabled' if now['policed'] else 'disabled'}"
        return
    if before["forced"] != now["forced"]:
        yield f"row-level security of {before['name']} {'holds' if now['forced'] else 'no longer holds'} for its owner"
    old, new = before["policies"] or {}, now["policies"] or {}
    for policy in sorted({*old, *new}):
        if old.get(policy) != new.get(policy):
            how = "is new" if policy not in old else "is gone" if policy not in new else "was changed"
            yield f"the policy {policy} of {before['name']} {how}"


def _constraints(before: Fact, now: Fact) -> Iterator[str]:
    name = before["name"]
    if name != now["name"]:
        yield f"the table {name} was renamed to {now['name']}"
    for column in before["required"]:
        if column not in now["required"]:
            yield f"column {column} of {name} may be NULL now"
    for column in now["required"]:
        if column not in before["required"]:
            yield f"column {column} of {name} is never NULL now"
    for key in before["keys"]:
        if key not in now["keys"]:
            yield f"{', '.join(key)} of {name} may come twice now"
    for key in now["keys"]:
        if key not in before["keys"]:
            yield f"{', '.join(key)} of {name} is unique now"
    if before["primary"] != now["primary"]:
        yield f"{name} has another primary key, or none"


def _type(before: Fact, now: Fact) -> Iterator[str]:
    called = _called("type", before)
    if before["name"] != now["name"]:
        yield f"{called} was renamed to {now['name']}"
    old, new = (dict(fact["labels"] or []) for fact in (before, now))
    for id_ in {**old, **new}:
        if id_ in old and id_ in new and old[id_] != new[id_]:
            yield f"the label '{old[id_]}' of {called} was renamed to '{new[id_]}'"
        elif (id_ in old) != (id_ in new):
            yield f"the label '{(old | new)[id_]}' of {called} is {'gone' if id_ in old else 'new'}"
    if before["checks"] != now["checks"] or before["required"] != now["required"]:
        yield f"{called} allows other values"


def _function(before: Fact, now: Fact) -> Iterator[str]:
    called = _called("function", before)
    if before["name"] != now["name"]:
        yield f"{called} was renamed to {now['name']}"
    if any(before[name] != now[name] for name in ("body", "language", "aggregate", "gives", "takes", "set")):
        yield f"{called} was replaced"
    for name, words in TRAITS.items():
        if before[name] != now[name]:
            yield f"{called} has {words}"


def _role(before: Fact, now: Fact) -> Iterator[str]:
    for name, words in (("super", "a superuser"), ("exempt", "exempt from policies")):
        if before[name] != now[name]:
            yield f"the role {before['name']} is {words if now[name] else f'no longer {words}'}"
    if before["acts for"] != now["acts for"] and before["super"] == now["super"]:
        yield f"the role {before['name']} is a member of other roles"


def _setting(before: Fact, now: Fact) -> Iterator[str]:
    yield f"{before['name']} is {now['value']}, and was {before['value']}"


def _collation(before: Fact, now: Fact) -> Iterator[str]:
    for name, words in (("actual", "the library of the collation"), ("version", "what was made by the collation")):
        if before[name] != now[name]:
            yield f"{words} {before['name']} has version {now[name]}, and had {before[name]}"


def _text_search(before: Fact, now: Fact) -> Iterator[str]:
    changed = [name for name in ("configurations", "mappings", "dictionaries") if before[name] != now[name]]
    yield f"{' and '.join(changed)} of text search were changed"


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
