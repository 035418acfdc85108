-- One reading of a query for several of its targets. Its rows are UNLOGGED: of one from before the server's last start
-- nobody knows whether they are there.

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
-- Held, so that nobody replaces it while its rows are taken. Zero rows: there is none that is new enough.
SELECT taken_at FROM etl.etl_readings
WHERE whole = %(whole)s AND meaning = %(meaning)s AND taken_at >= %(since)s AND taken_at > pg_postmaster_start_time()
  AND to_regclass(%(relation)s) IS NOT NULL
FOR KEY SHARE

-- name: try
-- Whether it is ours to read: until the end of the transaction nobody else does.
SELECT pg_try_advisory_xact_lock(hashtextextended('vitrina reading ' || %(whole)s::text, 0)) AS ours, clock_timestamp() AS now

-- name: forget
DELETE FROM etl.etl_readings WHERE whole = %(whole)s

-- name: keep
INSERT INTO etl.etl_readings (whole, meaning, taken_at, taken_by) VALUES (%(whole)s, %(meaning)s, %(taken_at)s, '{}')

-- name: take
-- And what this run has seen is as old as the reading.
WITH run AS (
    UPDATE etl.etl_runs r SET tried_at = least(r.tried_at, %(taken_at)s::timestamptz)
    FROM etl.etl_leases l WHERE l.pipeline_id = %(pipeline_id)s AND r.id = l.run_id
)
UPDATE etl.etl_readings SET taken_by = taken_by || %(pipeline_id)s::uuid WHERE whole = %(whole)s RETURNING taken_by

-- name: wanted
-- Whether another target may still come for it.
SELECT EXISTS (
    SELECT FROM etl.etl_pipelines p
    WHERE p.part_of = %(whole)s AND p.id <> ALL (%(taken_by)s::uuid[]) AND p.enabled
      AND (p.status = 'RUNNING' OR p.status IN ('RUN_REQUESTED', 'IDLE') AND p.due_at <= %(taken_at)s)
      AND NOT EXISTS (SELECT FROM etl.etl_postponed w WHERE w.pipeline_id = p.id AND p.status <> 'RUNNING')) AS found
