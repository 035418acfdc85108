-- compatible-with: 0007
-- Live marts are audited in the background, and one that is behind and stands still is told of. A program that does not
-- know of it audits nothing; an API that does not know the new kinds of incidents cannot show them.

ALTER TABLE etl.etl_incidents
    DROP CONSTRAINT etl_incidents_kind_check,
    ADD CONSTRAINT etl_incidents_kind_check CHECK (kind IN ('failed', 'stale', 'stuck', 'wrong'));
ALTER TABLE etl.etl_alerts
    DROP CONSTRAINT etl_alerts_event_check,
    ADD CONSTRAINT etl_alerts_event_check CHECK (event IN ('failed', 'recovered', 'stale', 'stuck', 'wrong'));

-- Of a mart that lacks something: its position when it was last seen to move, and when that was.
ALTER TABLE etl.etl_behind
    ADD COLUMN at_id bigint,
    ADD COLUMN still_since timestamptz NOT NULL DEFAULT clock_timestamp();

-- How far the audit of each live mart is: lap after lap over all its keys, in their order.
CREATE TABLE etl.etl_mart_audits (
    pipeline_id uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    key_types   text NOT NULL DEFAULT '',    -- of what key the bound is
    bound       text[],                      -- this lap has read all keys up to this one; NULL: none yet
    size        integer NOT NULL DEFAULT 1000 CHECK (size > 0),    -- of the next range, in rows
    rate        double precision NOT NULL DEFAULT 0,               -- rows a second, of the last one
    lap_since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    lap_rows    bigint NOT NULL DEFAULT 0,
    lap_of      bigint NOT NULL DEFAULT 0,   -- rows of the mart, about, when the lap began
    lap_wrong   bigint NOT NULL DEFAULT 0,
    whole_since timestamptz,                 -- when the last whole lap began: every key was read since
    whole_wrong bigint NOT NULL DEFAULT 0,   -- and so many rows were wrong in it
    rows        bigint NOT NULL DEFAULT 0,   -- all that were ever read,
    wrong       bigint NOT NULL DEFAULT 0,   -- found wrong,
    seconds     double precision NOT NULL DEFAULT 0,    -- and the time that it took
    next_at     timestamptz                  -- NULL: the audit is off
);

-- Marts that are live already are audited from now on, also those whose source is quiet.
INSERT INTO etl.etl_mart_audits (pipeline_id, next_at)
SELECT p.id, clock_timestamp() FROM etl.etl_pipelines p JOIN etl.etl_state s ON s.pipeline_id = p.id
WHERE p.mode = 'live' AND s.checkpoint -> 'live' IS NOT NULL;
