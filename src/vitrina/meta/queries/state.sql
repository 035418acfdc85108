-- name: fence
-- The last statement before a batch's COMMIT. Zero rows: the lease is lost, roll back and stop.
UPDATE etl.etl_state
SET seq = seq + 1, checkpoint = %(checkpoint)s, last_processed_value = %(value)s, last_processed_id = %(id)s,
    columns = %(columns)s, config_hash = %(config_hash)s, updated_at = clock_timestamp()
WHERE pipeline_id = %(pipeline_id)s AND epoch = %(epoch)s AND seq = %(seq)s
RETURNING (SELECT p.status FROM etl.etl_pipelines p WHERE p.id = pipeline_id) AS status

-- name: get
SELECT * FROM etl.etl_state WHERE pipeline_id = %(pipeline_id)s

-- name: leave
-- End of a claim: succeed, pause, fail or hand back, by `moves` from the present status. Zero rows: the lease is lost.
WITH held AS (
    SELECT p.id, p.status AS old_status, l.run_id
    FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
    WHERE p.id = %(pipeline_id)s AND l.owner = %(owner)s AND l.run_id = %(run_id)s
      AND p.status IN ('RUNNING', 'PAUSE_REQUESTED')
    FOR UPDATE OF p, l
), released AS (
    UPDATE etl.etl_leases l
    SET owner = NULL, expires_at = NULL, runner = NULL, run_id = NULL, backend_pid = NULL, backend_start = NULL,
        crashes = 0
    FROM held WHERE l.pipeline_id = held.id
    RETURNING l.pipeline_id
), moved AS (
    UPDATE etl.etl_pipelines p SET status = %(moves)s::jsonb ->> held.old_status
    FROM held JOIN released ON released.pipeline_id = held.id
    WHERE p.id = held.id
    RETURNING p.id, p.status
), closed AS (
    UPDATE etl.etl_runs r SET status = %(run_status)s, finished_at = clock_timestamp(), error = %(error)s
    FROM held JOIN moved ON moved.id = held.id WHERE r.id = held.run_id
)
SELECT status FROM moved
