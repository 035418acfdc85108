"""A result of any size, of which a driver never holds more than a piece.

Spark's driver takes a result as fast as its executors make it, however slowly somebody reads it: ten million rows are
more than a heap of a gigabyte. So it is computed once and kept in the cluster, on the executors' disks, with a number
for each row; then it is asked for by ranges of numbers. All pieces are of that one computation: where some of it is
lost, with its executor, the next piece fails, and the run begins anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from vitrina.domain.errors import RetryableError
from vitrina.sources.arrow.text import wrapped
from vitrina.sources.spark.asking import is_told
from vitrina.sources.spark.client import Answers, SparkConnectClient, StructType, proto

NTH = "vitrina_nth"  # of a row: the partition in the upper bits, the row in it in the lower 33
BITS = 33
FIRST_ROWS = 1_000  # of the piece that tells how long rows are
GROWTH = 32  # of a piece over the one before, at most
PIECE_BYTES = 64 * 1024**2  # of Arrow; a driver has it about three times


class Span(NamedTuple):
    """A partition of what is kept."""

    part: int
    rows: int


@dataclass
class Pieces:
    """How many rows the next piece has, by what those before it weighed."""

    target: int = PIECE_BYTES
    rows: int = FIRST_ROWS

    def weighed(self, rows: int, size: int) -> None:
        """By those of the last piece."""
        self.rows = max(1, min(self.rows * GROWTH, self.target * rows // max(size, 1)))

    def cut(self, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
        """Ranges of numbers, from one up to the next, which is not in it."""
        begin, wanted = None, self.rows
        for part, rows in spans:
            first, at = part << BITS, 0
            while at < rows:
                begin = first + at if begin is None else begin
                taken = min(wanted, rows - at)
                at, wanted = at + taken, wanted - taken
                if not wanted:
                    yield begin, first + at
                    begin, wanted = None, self.rows
            end = first + rows
        if begin is not None:
            yield begin, end


@dataclass(frozen=True)
class KeptResult:
    """A result in the cluster, under a name of the session's."""

    client: SparkConnectClient
    name: str
    pieces: Pieces = field(default_factory=Pieces)

    def batches(self, check: Callable[[], None]) -> Iterator[Any]:
        """All of it; as many rows as were counted before, or none of the run's."""
        spans = self._spans()
        given = 0
        for begin, end in self.pieces.cut(spans):
            check()
            rows = size = 0
            for batch in record_batches(self.client, self._between(begin, end)):
                rows, size = rows + batch.num_rows, size + batch.nbytes
                yield batch.drop_columns([NTH])
            self.pieces.weighed(rows, size)
            given += rows
        if given != (counted := sum(rows for _, rows in spans)):
            raise RetryableError(f"of {counted:,} rows that Spark has kept it gave {given:,}", "it is tried again")

    def forget(self) -> None:
        """Its disks are free again once the driver's cleaner has been there."""
        command = proto.Command()
        command.remove_cached_remote_relation_command.relation.relation_id = self.name
        is_told(lambda: [*_answers(self.client, command)])

    def _between(self, begin: int, end: int) -> proto.Relation:
        range_ = _expression(f"{NTH} >= {begin} AND {NTH} < {end}")
        return proto.Relation(filter=proto.Filter(input=self._relation, condition=range_))

    def _spans(self) -> list[Span]:
        part = proto.Project(input=self._relation, expressions=[_expression(f"shiftright({NTH}, {BITS}) AS part")])
        count = proto.Aggregate(
            input=proto.Relation(project=part),
            group_type=proto.Aggregate.GROUP_TYPE_GROUPBY,
            grouping_expressions=[_expression("part")],
            aggregate_expressions=[_expression("count(1) AS row_count")],
        )
        found = record_batches(self.client, proto.Relation(aggregate=count))
        return sorted(Span(row["part"], row["row_count"]) for batch in found for row in batch.to_pylist())

    @property
    def _relation(self) -> proto.Relation:
        return proto.Relation(cached_remote_relation=proto.CachedRemoteRelation(relation_id=self.name))


def keep(client: SparkConnectClient, query: str) -> KeptResult:
    """Compute it, now, and leave it in the cluster."""
    numbered = f"SELECT *, monotonically_increasing_id() AS {NTH} FROM {wrapped(query)} AS vitrina_q"
    command = proto.Command()
    command.checkpoint_command.relation.sql.query = numbered
    command.checkpoint_command.local = command.checkpoint_command.eager = True
    command.checkpoint_command.storage_level.use_disk = True
    command.checkpoint_command.storage_level.replication = 1
    field_ = "checkpoint_command_result"
    results = [getattr(each, field_) for each in _answers(client, command) if each.HasField(field_)]
    return KeptResult(client, results[0].relation.relation_id)


def record_batches(client: SparkConnectClient, relation: proto.Relation) -> Iterator[Any]:
    """As big as the server makes them."""
    for given in client.to_table_as_iterator(proto.Plan(root=relation), {}):
        if not isinstance(given, StructType):
            yield from given.to_batches()


def _answers(client: SparkConnectClient, command: proto.Command) -> Iterator[Any]:
    """To a command, as they are: the client's own way makes a data frame of them, which needs more than a client."""
    request = client._execute_plan_request_with_metadata()
    request.plan.command.CopyFrom(command)
    try:
        yield from Answers(request, client._stub, client._retrying, client._builder.metadata())
    except Exception as error:
        client._handle_error(error)


def _expression(text: str) -> proto.Expression:
    return proto.Expression(expression_string=proto.Expression.ExpressionString(expression=text))
