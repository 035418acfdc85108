"""Marts that nothing concerns: their positions are moved together now and then, so that the log can be trimmed."""

from collections.abc import Iterable

from vitrina.capture.log import Tip
from vitrina.meta.repos.following import FollowingRepo, Move
from vitrina.runner.followed import Followed


def farthest(marts: Iterable[Followed], tip: Tip) -> int:
    """How many changes the one is behind, in the meta-store, that is behind most."""
    return max((tip.last_id - one.kept for one in marts if one.rests), default=0)


def pass_over(marts: Iterable[Followed], repo: FollowingRepo) -> None:
    """One statement for all of them. Who was written or taken meanwhile stays where it is."""
    moves = {one.claim.pipeline_id: (one, move) for one in marts if (move := _move_of(one))}
    for id_ in repo.pass_over([move for _, move in moves.values()]) if moves else ():
        one, move = moves[id_]
        one.was_passed_over(move.at_id)


def _move_of(one: Followed) -> Move | None:
    if not one.rests or one.stay is None or one.ledger is None or one.stay.at <= one.kept:
        return None
    return Move(one.claim.pipeline_id, one.claim.epoch, one.ledger.seq, one.stay.at)
