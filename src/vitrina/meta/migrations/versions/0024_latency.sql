-- compatible-with: 0007
-- How late changes came to live marts, minute by minute, and how much was left. Written a few times a minute by whoever
-- runs them; it outlives its pipeline, so that nobody who holds that locked keeps the others from being written.
CREATE TABLE etl.etl_latency (
    pipeline_id uuid NOT NULL,
    minute      timestamptz NOT NULL,
    arrivals    integer NOT NULL DEFAULT 0,     -- slices of changes that have come to the mart
    ms_sum      float8 NOT NULL DEFAULT 0,      -- from the commit of their oldest change
    ms_max      float8 NOT NULL DEFAULT 0,
    buckets     integer[] NOT NULL DEFAULT '{}',   -- how many by how late, see domain/latency.py
    backlog     bigint NOT NULL DEFAULT 0,      -- changes in the log that it lacked, at most
    PRIMARY KEY (pipeline_id, minute)
);
CREATE INDEX etl_latency_by_age ON etl.etl_latency (minute);
