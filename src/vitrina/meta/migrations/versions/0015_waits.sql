-- compatible-with: 0007
-- Pipelines that cannot go live yet: transactions are open that were so when they began. They hold no slot meanwhile; what
-- they wait for is kept here, so that whoever goes on waits for the same transactions and not for newer ones. A program
-- that does not know of it waits in its slot, for those that are open then.
CREATE TABLE etl.etl_waits (
    pipeline_id uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    barrier     text NOT NULL,         -- transactions of the source with a lower id are waited for
    context     jsonb NOT NULL,        -- how its tables were captured then: the barrier is good for that only
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    holder      jsonb NOT NULL,        -- of the oldest, as far as the reader may see
    looked_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
