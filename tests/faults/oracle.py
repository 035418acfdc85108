"""The oracle: what must hold after every fault, whatever it was, once all has come to rest."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tests.elastic import Search
from tests.faults.places import Place
from tests.sinks import as_rows, assert_tidy
from tests.support import Lab
from vitrina.domain.pipeline import Pipeline, Plan, resolve
from vitrina.domain.policy import split_prefix
from vitrina.testing.marts import Rows

# Every move of the fence and every new holder is noted by the database itself: no runner can forget to.
WATCH = """
    CREATE SCHEMA oracle;
    CREATE TABLE oracle.moves (
        pipeline_id uuid, epoch bigint, seq bigint, cursor text, position jsonb,
        epoch_before bigint, seq_before bigint, cursor_before text, position_before jsonb);
    CREATE TABLE oracle.holders (pipeline_id uuid, epoch bigint, owner uuid);
    CREATE TABLE oracle.repeats (mart text, key text);

    CREATE FUNCTION oracle.note_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO oracle.moves VALUES (new.pipeline_id,
            new.epoch, new.seq, new.last_processed_value, new.checkpoint -> 'live',
            old.epoch, old.seq, old.last_processed_value, old.checkpoint -> 'live');
        RETURN NULL; END $$;
    CREATE TRIGGER oracle AFTER UPDATE ON etl.etl_state
        FOR EACH ROW WHEN (new.seq <> old.seq OR new.epoch <> old.epoch) EXECUTE FUNCTION oracle.note_move();

    CREATE FUNCTION oracle.note_holder() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO oracle.holders SELECT new.pipeline_id, s.epoch, new.owner
        FROM etl.etl_state s WHERE s.pipeline_id = new.pipeline_id;
        RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER oracle AFTER UPDATE ON etl.etl_leases DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (new.owner IS NOT NULL AND (new.owner, new.run_id) IS DISTINCT FROM (old.owner, old.run_id))
        EXECUTE FUNCTION oracle.note_holder();

    CREATE FUNCTION oracle.note_repeat() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
        INSERT INTO oracle.repeats VALUES (tg_relid::regclass::text, to_jsonb(new) ->> tg_argv[0]);
        RETURN NULL; END $$;
"""
BACKWARD = """
    SELECT p.name, m.* FROM oracle.moves m LEFT JOIN etl.etl_pipelines p ON p.id = m.pipeline_id
    WHERE m.epoch < m.epoch_before OR m.seq < m.seq_before OR (m.epoch = m.epoch_before AND m.seq <> m.seq_before + 1)
       OR CASE p.mode WHEN 'incremental' THEN m.cursor::timestamptz < m.cursor_before::timestamptz END
       OR (m.position ->> 'slot' = m.position_before ->> 'slot'
           AND (m.position ->> 'id')::bigint < (m.position_before ->> 'id')::bigint)
"""
SHARED = "SELECT pipeline_id, epoch FROM oracle.holders GROUP BY 1, 2 HAVING count(DISTINCT owner) > 1"
OPEN = """
    SELECT r.id, r.runner, r.started_at, a.attempt FROM etl.etl_runs r JOIN etl.etl_run_attempts a ON a.run_id = r.id
    JOIN etl.etl_pipelines p ON p.id = r.pipeline_id
    WHERE 'RUNNING' IN (r.status, a.status) AND p.name <> ALL (%s)
"""
HELD = """
    SELECT l.pipeline_id, l.runner FROM etl.etl_leases l JOIN etl.etl_pipelines p ON p.id = l.pipeline_id
    WHERE l.run_id IS NOT NULL AND p.name <> ALL (%s)
"""  # not those of followers
REGISTERED = "SELECT index_name, state FROM etl.etl_indexes"


@dataclass
class Oracle:
    """Asks the database, and the search engine if there is one, never the code that it judges."""

    lab: Lab
    search: Search | None = None
    wanted: Mapping[str, str] = field(default_factory=dict)  # pipeline -> what its mart should hold, if not its query
    places: Mapping[str, Place] = field(default_factory=dict)  # where marts are that are neither tables nor indexes
    away: Sequence[str] = ()  # pipelines whose place does not answer: their runs wait for it, also for who takes over

    def watch(self) -> None:
        """From here on."""
        self.lab.sql(WATCH)

    def watch_repeats(self, mart: str, key: str) -> None:
        """A row of this mart that is written again as it was is a change that was applied twice."""
        same = "AFTER UPDATE ON {} FOR EACH ROW WHEN (old.* IS NOT DISTINCT FROM new.*)"
        self.lab.sql(f"CREATE TRIGGER oracle {same.format(mart)} EXECUTE FUNCTION oracle.note_repeat('{key}')")

    def assert_all_well(self, *pipelines: Pipeline) -> None:
        """Equal, at rest, tidy, and with a clean past."""
        for pipeline in pipelines:
            rests = ("FOLLOWING", "IDLE") if pipeline.mode == "live" else ("IDLE",)
            assert self.lab.status(pipeline) in rests
            if pipeline.mode != "live":  # the bursts of a follower are added to an older row
                assert self.lab.last_run(pipeline)["error"] is None
            assert self.differences(pipeline) == 0, self.explain(pipeline)
        self.assert_at_rest()
        self.assert_past()

    def differences(self, pipeline: Pipeline) -> int:
        """How many rows or documents are on one side only."""
        return sum(map(len, self._sides(pipeline)))

    def assert_at_rest(self) -> None:
        """No run is open, no lease held, no table, document or index left behind."""
        assert self.lab.sql(OPEN, list(self.away)) == []
        assert self.lab.sql(HELD, list(self.away)) == []
        if not self.away:  # whose share of a reading is kept for them
            assert_tidy(self.lab)
        if self.search:
            self._assert_indexes(self.search)
        states = dict(self.lab.sql(REGISTERED))
        for place in self.places.values():
            place.assert_known(states)

    def assert_past(self) -> None:
        """No checkpoint ever moved back, no epoch had two holders, nothing was applied twice."""
        assert self.lab.sql(BACKWARD) == []
        assert self.lab.sql(SHARED) == []
        assert self.lab.sql("SELECT * FROM oracle.repeats") == []

    def forget(self) -> None:
        """What has been looked at, so that the next look is short."""
        self.lab.sql("TRUNCATE oracle.moves; TRUNCATE oracle.holders")

    def explain(self, pipeline: Pipeline) -> str:
        """Which they are, a few of them."""
        missing, beyond = self._sides(pipeline)
        return f"{pipeline.name}: missing {missing[:5]}, beyond {beyond[:5]}"

    def _sides(self, pipeline: Pipeline) -> tuple[list[str], list[str]]:
        """What is missing, and what is there beyond; deletes, which `incremental` cannot see, are neither."""
        plan = resolve(pipeline)
        select = self.wanted.get(pipeline.name, plan.select)
        if ":" in plan.target:
            return self._documents(plan, select)
        names = [column.name for column in self.lab.db.execute(f"{select} LIMIT 0".encode()).description or []]
        columns, key = ", ".join(names), ", ".join(plan.key)
        query = f"SELECT {columns} FROM ({select}) AS s"
        mart = f"SELECT {columns} FROM {plan.target}"
        if plan.mode == "incremental":
            mart += f" WHERE ({key}) IN (SELECT {key} FROM ({select}) AS s)"
        return self._except(query, mart), self._except(mart, query)

    def _except(self, these: str, those: str) -> list[str]:
        image = "SELECT q::text FROM ({}) AS q"
        return [row for (row,) in self.lab.sql(f"{image.format(these)} EXCEPT ALL {image.format(those)}")]

    def _found(self, target: str, select: str) -> Rows:
        if target.startswith(("es:", "os:")):
            assert self.search is not None
            return self.search.documents(split_prefix(target)[1].removeprefix(self.search.prefix))
        [place] = [place for place in self.places.values() if target.startswith(split_prefix(place.target("any"))[0])]
        return place.rows(target, select)

    def _documents(self, plan: Plan, select: str) -> tuple[list[str], list[str]]:
        found = self._found(plan.target, select)
        wanted = as_rows(self.lab, select, list(plan.key))
        missing = [f"{id_} {row}" for id_, row in wanted.items() if found.get(id_) != row]
        beyond = [f"{id_} {row}" for id_, row in found.items() if wanted.get(id_, row) != row]
        gone = [] if plan.mode == "incremental" else [id_ for id_ in found if id_ not in wanted]
        return missing, beyond + gone

    def _assert_indexes(self, search: Search) -> None:
        """Every index is registered; each target serves its live one alone; one epoch may write."""
        known = dict(self.lab.sql(f"{REGISTERED} WHERE starts_with(index_name, %s)", search.prefix))
        found = search.get(f"/{search.prefix}*?expand_wildcards=all")
        assert found.keys() <= known.keys(), "an index that nobody knows of"
        live = {index for index, state in known.items() if state == "live"}
        served = {index for index, about in found.items() if any(a.startswith(search.prefix) for a in about["aliases"])}
        assert served == live
        assert self.left_open() == []

    def left_open(self) -> list[UUID]:
        """Pipelines with the write alias of an older epoch beside the last one's: a zombie may add its own once more
        when it goes on, though it can commit nothing to send through it. The next run removes it."""
        assert self.search is not None
        found = self.search.get(f"/{self.search.prefix}*?expand_wildcards=all")
        aliases = [alias for about in found.values() for alias in about["aliases"] if alias.startswith("vitrina-")]
        owners = Counter(alias.split("-")[1] for alias in aliases)
        return [UUID(hex=owner) for owner, count in owners.items() if count > 1]
