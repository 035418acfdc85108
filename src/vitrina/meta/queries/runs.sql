-- name: begin_attempt
-- Another attempt of the same claim. Zero rows: the lease is lost.
WITH held AS (
    UPDATE etl.etl_leases l SET attempt = l.attempt + 1
    WHERE l.pipeline_id = %(pipeline_id)s AND l.owner = %(owner)s AND l.run_id = %(run_id)s AND l.attempt = %(attempt)s
    RETURNING l.run_id, l.attempt
)
UPDATE etl.etl_runs r
SET attempt = held.attempt, tried_at = clock_timestamp(), options = r.options - 'restart', error = %(error)s,
    remedy = %(remedy)s
FROM held WHERE r.id = held.run_id
RETURNING r.attempt

-- name: attempts
-- Of a run, in order.
SELECT attempt, runner, started_at, finished_at, status, error, remedy
FROM etl.etl_run_attempts WHERE run_id = %(run_id)s ORDER BY attempt

-- name: attempts_of
-- Of several runs.
SELECT run_id, attempt, runner, started_at, finished_at, status, error, remedy
FROM etl.etl_run_attempts WHERE run_id = ANY (%(run_ids)s) ORDER BY run_id, attempt

-- name: count
-- Add a batch to the run, inside the batch's transaction.
UPDATE etl.etl_runs
SET rows_read = rows_read + %(read)s, rows_written = rows_written + %(written)s,
    rows_deleted = rows_deleted + %(deleted)s, rows_unchanged = rows_unchanged + %(unchanged)s,
    batches = batches + %(batches)s
WHERE id = %(run_id)s

-- name: log
-- Zero rows: the run is gone, with its pipeline; the fence will say so.
INSERT INTO etl.etl_run_events (run_id, level, event, fields)
SELECT r.id, %(level)s, %(event)s, %(fields)s FROM etl.etl_runs r WHERE r.id = %(run_id)s

-- name: recent
SELECT r.*, p.name FROM etl.etl_runs r JOIN etl.etl_pipelines p ON p.id = r.pipeline_id
WHERE r.pipeline_id = %(pipeline_id)s ORDER BY r.id DESC LIMIT %(limit)s

-- name: before_request
-- The last run that does not serve a request made now: one under way does. Zero rows: there is none.
SELECT id FROM etl.etl_runs WHERE pipeline_id = %(pipeline_id)s AND status <> 'RUNNING' ORDER BY id DESC LIMIT 1

-- name: get
SELECT r.*, p.name FROM etl.etl_runs r JOIN etl.etl_pipelines p ON p.id = r.pipeline_id WHERE r.id = %(run_id)s

-- name: page
-- Newest first; keyset by id.
SELECT r.*, p.name FROM etl.etl_runs r JOIN etl.etl_pipelines p ON p.id = r.pipeline_id
WHERE r.pipeline_id = %(pipeline_id)s AND (%(before)s::bigint IS NULL OR r.id < %(before)s)
ORDER BY r.id DESC LIMIT %(limit)s

-- name: changes
-- What a pipeline's last runs, or one of its runs, kept of what they changed: newest first.
SELECT e.run_id, e.at, e.fields -> 'changes' AS changes
FROM (SELECT r.id FROM etl.etl_runs r
      WHERE r.pipeline_id = %(pipeline_id)s AND (%(run_id)s::bigint IS NULL OR r.id = %(run_id)s)
      ORDER BY r.id DESC LIMIT %(runs)s) AS last
JOIN etl.etl_run_events e ON e.run_id = last.id AND e.event = 'changed'
ORDER BY e.id DESC LIMIT %(limit)s

-- name: events
SELECT e.id, e.at, e.level, e.event, e.fields FROM etl.etl_run_events e
WHERE e.run_id = %(run_id)s AND e.id > %(after)s ORDER BY e.id LIMIT %(limit)s

-- name: add_to_hour
-- A burst of a live pipeline is added to the row of its hour. Zero rows: it is the first, or somebody asked for it.
WITH this AS (SELECT * FROM etl.etl_runs WHERE id = %(run_id)s AND due_at IS NOT NULL)
UPDATE etl.etl_runs r
SET finished_at = this.finished_at, rows_read = r.rows_read + this.rows_read,
    rows_written = r.rows_written + this.rows_written, rows_deleted = r.rows_deleted + this.rows_deleted,
    rows_unchanged = r.rows_unchanged + this.rows_unchanged, batches = r.batches + this.batches, bursts = r.bursts + 1
FROM this
WHERE r.id = (SELECT h.id FROM etl.etl_runs h
              WHERE h.pipeline_id = this.pipeline_id AND h.id < this.id ORDER BY h.id DESC LIMIT 1)
  AND r.bursts > 0 AND r.status = 'SUCCESS' AND r.config_version = this.config_version
  AND date_trunc('hour', r.started_at) = date_trunc('hour', this.started_at)
RETURNING r.id

-- name: mark_burst
UPDATE etl.etl_runs SET bursts = 1 WHERE id = %(run_id)s AND due_at IS NOT NULL

-- name: move_events
-- What it found worth saying goes with it; that it began and ended does not.
UPDATE etl.etl_run_events SET run_id = %(hour_id)s
WHERE run_id = %(run_id)s AND (level <> 'info' OR event <> ALL(%(passing)s))

-- name: drop
DELETE FROM etl.etl_runs WHERE id = %(run_id)s
