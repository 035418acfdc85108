-- compatible-with: 0007
-- What was done to this meta-store, by which Vitrina, and the oldest program that still works with it afterwards. From
-- here on each migration says that in its first lines; older programs ask for exactly their own version.
CREATE TABLE etl.etl_schema_history (
    version         text PRIMARY KEY,
    compatible_with text NOT NULL CHECK (compatible_with <= version),
    program         text NOT NULL,
    applied_at      timestamptz NOT NULL DEFAULT now()
);

-- Whoever writes is told by the lock that each transaction of a run or of a capture takes.
ALTER TABLE etl.etl_leases DROP COLUMN backend_pid, DROP COLUMN backend_start;
ALTER TABLE etl.etl_captures DROP COLUMN backend_pid, DROP COLUMN backend_start;
