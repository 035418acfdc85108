-- name: approach_fence
-- From here to COMMIT a stalled session is ended by the server, so that it cannot keep the state row locked.
SELECT set_config('idle_in_transaction_session_timeout', %(timeout)s, true)

-- name: fence
-- The last statement before a batch's COMMIT. Zero rows: the lease is lost, roll back and stop. Tells what was asked
-- of the run meanwhile.
UPDATE etl.etl_state
SET seq = seq + 1, checkpoint = %(checkpoint)s, last_processed_value = %(value)s, last_processed_id = %(id)s,
    columns = %(columns)s, config_hash = %(config_hash)s, updated_at = clock_timestamp()
WHERE pipeline_id = %(pipeline_id)s AND epoch = %(epoch)s AND seq = %(seq)s
RETURNING (SELECT p.status FROM etl.etl_pipelines p WHERE p.id = pipeline_id) AS status,
          (SELECT p.reload_version FROM etl.etl_pipelines p WHERE p.id = pipeline_id) AS reload_version

-- name: config
-- The configuration at some version.
SELECT config FROM etl.etl_config_versions WHERE pipeline_id = %(pipeline_id)s AND version = %(version)s

-- name: get
SELECT * FROM etl.etl_state WHERE pipeline_id = %(pipeline_id)s

-- name: leave
-- End of a claim: succeed, pause, fail, hand back or wait, by `moves` from the present status. What goes on keeps its
-- options, except that it restarts only once; a run that waits stays open. A live pipeline that would rest is FOLLOWING
-- instead, if it is to be followed all the time and has a position to follow from. Zero rows: the lease is lost.
WITH held AS (
    SELECT p.id, p.status AS old_status, l.run_id
    FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
    WHERE p.id = %(pipeline_id)s AND l.owner = %(owner)s AND l.run_id = %(run_id)s
      AND l.attempt = %(attempt)s AND p.status IN ('RUNNING', 'PAUSE_REQUESTED')
    FOR UPDATE OF p, l
), released AS (
    UPDATE etl.etl_leases l
    SET owner = NULL, expires_at = NULL, runner = NULL, run_id = NULL, crashes = 0
    FROM held WHERE l.pipeline_id = held.id
    RETURNING l.pipeline_id
), moved AS (
    UPDATE etl.etl_pipelines p
    SET status = CASE WHEN %(moves)s::jsonb ->> held.old_status = 'IDLE' AND p.mode = 'live' AND p.enabled
                           AND p.schedule_interval IS NULL AND s.checkpoint -> 'live' IS NOT NULL
                           AND NOT s.checkpoint -> 'live' ? 'comparing'
                      THEN 'FOLLOWING' ELSE %(moves)s::jsonb ->> held.old_status END,
        run_options = CASE %(moves)s::jsonb ->> held.old_status
                          WHEN 'RUN_REQUESTED' THEN r.options - 'restart' ELSE '{}' END
    FROM held JOIN released ON released.pipeline_id = held.id JOIN etl.etl_runs r ON r.id = held.run_id
         JOIN etl.etl_state s ON s.pipeline_id = held.id
    WHERE p.id = held.id
    RETURNING p.id, p.status, %(stays_open)s AND p.enabled AND p.status = 'RUN_REQUESTED' AS waits
), ended AS (
    UPDATE etl.etl_run_attempts a SET status = %(run_status)s, finished_at = clock_timestamp(), error = %(error)s,
        remedy = %(remedy)s
    FROM held JOIN moved ON moved.id = held.id
    WHERE a.run_id = held.run_id AND a.attempt = %(attempt)s AND a.status = 'RUNNING'
), closed AS (
    UPDATE etl.etl_runs r
    SET status = CASE WHEN moved.waits THEN 'RUNNING' ELSE %(run_status)s END,
        finished_at = CASE WHEN NOT moved.waits THEN clock_timestamp() END,
        waiting_since = CASE WHEN moved.waits THEN clock_timestamp() END, error = %(error)s, remedy = %(remedy)s
    FROM held JOIN moved ON moved.id = held.id WHERE r.id = held.run_id
)
SELECT moved.status, held.old_status FROM moved JOIN held ON held.id = moved.id
