-- One reading of a query for several of its targets. Its rows are UNLOGGED, and so is the note of them: of one from before
-- the server's last start nobody knows whether they are there.

-- name: company
-- Whether another target is due too, or under way, so that reading once serves both. One that waits for somebody is none.
SELECT EXISTS (
    SELECT FROM etl.etl_pipelines p
    WHERE p.part_of = %(whole)s AND p.id <> %(pipeline_id)s AND p.enabled
      AND (p.status = 'RUNNING' OR p.status IN ('RUN_REQUESTED', 'IDLE') AND p.due_at <= clock_timestamp())
      AND NOT EXISTS (SELECT FROM etl.etl_postponed w WHERE w.pipeline_id = p.id AND p.status <> 'RUNNING')
) OR EXISTS (
    SELECT FROM etl.etl_readings r
    WHERE r.whole = %(whole)s AND r.taken_at >= %(since)s AND r.taken_at > pg_postmaster_start_time()
      AND r.taken_by <> ARRAY[%(pipeline_id)s]::uuid[] AND to_regclass(%(relation)s) IS NOT NULL
) AS found

-- name: find
-- Held, so that nobody replaces it while its rows are taken. Zero rows: there is none that is new enough, or somebody is
-- about to replace it: waiting for that would be waiting for all that he reads.
SELECT taken_at, rows FROM etl.etl_readings
WHERE whole = %(whole)s AND meaning = %(meaning)s AND taken_at >= %(since)s AND taken_at > pg_postmaster_start_time()
  AND to_regclass(%(relation)s) IS NOT NULL
FOR KEY SHARE SKIP LOCKED

-- name: try
-- Whether it is ours to read: until the end of the transaction nobody else does.
SELECT pg_try_advisory_xact_lock(hashtextextended('vitrina reading ' || %(whole)s::text, 0)) AS ours, clock_timestamp() AS now

-- name: forget
-- Unless somebody takes its rows just now, whom nobody waits for with a lock in hand.
WITH free AS (
    SELECT r.whole FROM etl.etl_readings r WHERE r.whole = %(whole)s FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM etl.etl_readings r USING free WHERE r.whole = free.whole RETURNING r.whole
)
SELECT EXISTS (SELECT FROM gone) AS gone, EXISTS (SELECT FROM etl.etl_readings r WHERE r.whole = %(whole)s) AS was_there

-- name: begun
-- When this attempt began: what it opened then, it sees as of then.
SELECT r.tried_at FROM etl.etl_runs r JOIN etl.etl_leases l ON l.run_id = r.id WHERE l.pipeline_id = %(pipeline_id)s

-- name: keep
INSERT INTO etl.etl_readings (whole, meaning, taken_at, taken_by, rows)
VALUES (%(whole)s, %(meaning)s, %(taken_at)s, '{}', %(rows)s)

-- name: take
-- And what this run has seen is as old as the reading.
WITH run AS (
    UPDATE etl.etl_runs r SET tried_at = least(r.tried_at, g.taken_at)
    FROM etl.etl_leases l, etl.etl_readings g
    WHERE l.pipeline_id = %(pipeline_id)s AND r.id = l.run_id AND g.whole = %(whole)s
)
UPDATE etl.etl_readings SET taken_by = taken_by || %(pipeline_id)s::uuid WHERE whole = %(whole)s
RETURNING taken_by, taken_at

-- name: wanted
-- Whether another target may still come for it.
SELECT EXISTS (
    SELECT FROM etl.etl_pipelines p
    WHERE p.part_of = %(whole)s AND p.id <> ALL (%(taken_by)s::uuid[]) AND p.enabled
      AND (p.status = 'RUNNING' OR p.status IN ('RUN_REQUESTED', 'IDLE') AND p.due_at <= %(taken_at)s)
      AND NOT EXISTS (SELECT FROM etl.etl_postponed w WHERE w.pipeline_id = p.id AND p.status <> 'RUNNING')) AS found
