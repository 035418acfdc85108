-- compatible-with: 0007
-- What each live mart depends on besides rows, as it was when its query was judged. It is written in the transaction of
-- the checkpoint, whose `depends` is the digest; beside the checkpoint, which every slice writes, since it is larger. A
-- program that does not know of it follows without looking, as before.
CREATE TABLE etl.etl_dependencies (
    pipeline_id uuid PRIMARY KEY REFERENCES etl.etl_pipelines (id) ON DELETE CASCADE,
    needs jsonb NOT NULL,
    facts jsonb NOT NULL,
    digest text NOT NULL,
    changed text,  -- what a look has found to be otherwise; NULL: nothing
    kept_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- When the dependencies of a source's marts were last looked at, so that one runner does it.
CREATE TABLE etl.etl_dependency_looks (
    source text PRIMARY KEY,
    looked_at timestamptz NOT NULL
);
