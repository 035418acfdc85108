-- compatible-with: 0007
-- What was done to this meta-store, by which Vitrina, and the oldest program that still works with it afterwards. From
-- here on each migration says that in its first lines; older programs ask for exactly their own version.
CREATE TABLE etl.etl_schema_history (
    version         text PRIMARY KEY,
    compatible_with text NOT NULL CHECK (compatible_with <= version),
    program         text NOT NULL,
    applied_at      timestamptz NOT NULL DEFAULT now()
);
