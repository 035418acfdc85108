"""The search over the claim protocol: every reachable state, and from each of them a way on.

`python -m tests.models.search` searches three runners and two pipelines, then each seeded bug.
"""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.models.claims import BUGS, Broken, Move, Protocol, State, canonical, start

RESULTS = Path(__file__).parents[2] / "docs" / "models.json"


@dataclass
class Found:
    """What a search saw: how many states and steps, and what broke, with the way there."""

    states: int = 0
    steps: int = 0
    seconds: float = 0
    broken: str = ""
    trace: list[str] = field(default_factory=list)


def search(protocol: Protocol, runners: int, pipelines: int, *, live: bool = False) -> Found:
    """Every state and a way on from each, breadth first, so that the trace of what breaks is a shortest one."""
    began, found = time.monotonic(), Found()
    first = canonical(start(runners, pipelines, live=live))
    before: dict[State, State | None] = {first: None}
    try:
        explore(protocol, first, before, found)
    except Broken as error:
        found.broken, found.trace = error.args[0], tell(protocol, error.args[1], before, live=live)
    found.states, found.seconds = len(before), time.monotonic() - began
    return found


def explore(protocol: Protocol, first: State, before: dict[State, State | None], found: Found) -> None:
    """Take every step of every state; `before` learns where each was reached from."""
    queue = deque([first])
    good: set[State] = set()
    while queue:
        state = queue.popleft()
        for _, new in protocol.moves(state):
            found.steps += 1
            new = canonical(new)
            if new not in before:
                before[new] = state
                queue.append(new)
        if any(is_stuck(protocol, alone, good) for alone in each_alone(state)):
            raise Broken("one runner is left, the others stand still, and it can never finish the work", state)


def each_alone(state: State) -> set[State]:
    """The state as each of its runners sees it that is left alone with it: first, and the others in order."""
    pipelines, runners = state
    return {(pipelines, (runners[n], *runners[:n], *runners[n + 1 :])) for n in range(len(runners))}


def is_stuck(protocol: Protocol, state: State, good: set[State]) -> bool:
    """Whether the first runner, with the clock and the server, cannot bring every pipeline to an end."""
    way: list[tuple[State, Iterator[Move]]] = [(state, protocol.moves(state, solo=0))]
    tried = {state}
    with suppress(Broken):  # what breaks on the way is found elsewhere, with a shorter trace
        while way:
            here, moves = way[-1]
            if here in good or all(pipeline.status in ("done", "failed") for pipeline in here[0]):
                good.update(passed for passed, _ in way)
                return False
            new = next((new for _, new in moves if new not in tried), None)
            if new is None:
                way.pop()
            else:
                tried.add(new)
                way.append((new, protocol.moves(new, solo=0)))
        return True
    return False


def tell(protocol: Protocol, state: State | None, before: dict[State, State | None], *, live: bool) -> list[str]:
    """The steps to a state, told of runners and pipelines that keep their names all the way."""
    path: list[State] = []
    while state is not None:
        path.append(state)
        state = before[state]
    here = start(len(path[0][1]), len(path[0][0]), live=live)
    told = []
    for goal in path[-2::-1]:
        name, here = next((name, new) for name, new in protocol.moves(here) if canonical(new) == goal)
        told.append(name)
    return told


def main(runners: int = 3, pipelines: int = 2) -> int:
    """Search, seed each bug and search again; 1 if the protocol breaks or a bug is not found."""
    found = search(Protocol(), runners, pipelines)
    print(f"{runners} runners, {pipelines} pipelines: {found.states:,} states, {found.steps:,} steps", end=" ")
    print(f"in {found.seconds:.0f} s: {found.broken or 'every invariant holds'}")
    print("\n".join(f"    {line}" for line in found.trace), end="")
    followed = search(Protocol(), runners, 1, live=True)
    print(f"\none pipeline that is followed: {followed.states:,} states: {followed.broken or 'every invariant holds'}")
    seeded = {bug: search(Protocol(bug), runners, 1, live=True) for bug in BUGS}
    for bug, result in seeded.items():
        print(f"\n{bug} ({BUGS[bug]}): {result.broken or 'NOT FOUND'}, after {result.states:,} states")
        print("\n".join(f"    {line}" for line in result.trace))
    known = {"runners": runners, "pipelines": pipelines, "states": found.states, "steps": found.steps}
    bugs = {bug: {"broken": result.broken, "steps": len(result.trace)} for bug, result in seeded.items()}
    known |= {"followed_states": followed.states, "followed_steps": followed.steps}
    broken = found.broken or followed.broken
    RESULTS.write_text(json.dumps(known | {"broken": broken, "bugs": bugs}, indent=2) + "\n")
    return int(bool(broken) or not all(result.broken for result in seeded.values()))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
