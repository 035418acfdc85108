-- compatible-with: 0007
-- What was read of the query of several targets, for those of them that are due together: the rows are in
-- `etl_stage`, in a table that is named after the whole. One reading each; programs that do not know it read for
-- themselves.
CREATE TABLE etl.etl_readings (
    whole    uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    meaning  text NOT NULL,           -- of what was read, and in which columns
    taken_at timestamptz NOT NULL,    -- the query was read after that
    taken_by uuid[] NOT NULL          -- the targets that have it
);
