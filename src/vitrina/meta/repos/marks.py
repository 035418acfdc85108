"""Marks: the sessions that write say so, for whoever may have to end them; nobody else's lock stops anybody."""

import time
from dataclasses import dataclass, field

from psycopg import Cursor, errors
from psycopg.rows import DictRow

from vitrina.log import log
from vitrina.meta.db import Connection, queries, translated

SQL = queries("marks")
PIPELINE, CAPTURE, TURN = 0, 1, 2  # what a name is of


@dataclass
class Mark:
    """An advisory lock with a name."""

    conn: Connection
    name: str
    seed: int
    _asked: Cursor[DictRow] | None = field(default=None, init=False)

    def ask(self) -> None:
        """For it, in a pipeline: the answer is for `leave`, which comes next."""
        self._asked = self.conn.execute(SQL["leave"], self._key)

    def leave(self) -> None:
        """For the rest of the transaction, this session is the one that writes. Waits for a predecessor of ours; goes
        on without the mark if a stranger has it: then nobody can end this session early, and nothing else is lost."""
        if self.take():
            return
        strangers = [holder for holder in self._holders() if not holder["ours"]]
        if strangers:
            log.warning("somebody holds a lock that is ours; going on without it", **dict(strangers[0]))
        else:
            self.conn.execute(SQL["wait"], self._key)

    def take(self) -> bool:
        """For the rest of the transaction, if nobody has it."""
        asked, self._asked = self._asked or self.conn.execute(SQL["leave"], self._key), None
        row = asked.fetchone()
        return row is not None and bool(row["mine"])

    def is_my_turn(self) -> bool:
        """Whether no other session of ours has it; a stranger's is passed over."""
        return self.take() or not any(holder["ours"] for holder in self._holders())

    def clear(self, seconds: float) -> None:
        """Whoever writes may not any more: they have so long to notice, and are ended then."""
        deadline = time.monotonic() + seconds
        with translated():
            while any(holder["ours"] for holder in self._holders()):
                if time.monotonic() > deadline:
                    self.expel()
                    return
                time.sleep(0.02)

    def expel(self) -> None:
        """End the sessions of ours that have left it, as far as we may; a stranger's is none of our business."""
        with translated():
            for holder in [holder for holder in self._holders() if holder["ours"]]:
                try:
                    self.conn.execute(SQL["end"], holder)
                except errors.InsufficientPrivilege as error:
                    log.warning("a silent session could not be ended", pid=holder["pid"], reason=str(error))

    def _holders(self) -> list[DictRow]:
        return self.conn.execute(SQL["holders"], self._key).fetchall()

    @property
    def _key(self) -> dict[str, object]:
        return {"name": self.name, "seed": self.seed}
