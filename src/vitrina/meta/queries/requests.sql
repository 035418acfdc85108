-- name: ask
INSERT INTO etl.etl_requests (kind, pipeline_id, params, asked_by)
VALUES (%(kind)s, %(pipeline_id)s, %(params)s, coalesce(%(asked_by)s, session_user))
RETURNING id

-- name: get
SELECT * FROM etl.etl_requests WHERE id = %(id)s

-- name: latest
-- The last one of a kind, whatever became of it.
SELECT * FROM etl.etl_requests
WHERE pipeline_id = %(pipeline_id)s AND kind = %(kind)s
ORDER BY created_at DESC LIMIT 1

-- name: report
-- The last one that was answered. Zero rows: none ever was.
SELECT * FROM etl.etl_requests
WHERE pipeline_id = %(pipeline_id)s AND kind = %(kind)s AND status = 'DONE'
ORDER BY created_at DESC LIMIT 1

-- name: claim
-- The oldest request that nobody works on, or whose runner has gone silent. Zero rows: there is none of these kinds,
-- or others took it.
WITH open AS (
    SELECT r.id FROM etl.etl_requests r
    WHERE r.status IN ('REQUESTED', 'RUNNING') AND (r.status = 'REQUESTED' OR r.expires_at <= clock_timestamp())
      AND r.kind = ANY (%(kinds)s) AND r.attempt < %(attempts)s
    ORDER BY r.created_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE etl.etl_requests r
    SET status = 'RUNNING', owner = %(owner)s, runner = %(runner)s, attempt = r.attempt + 1,
        started_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM open WHERE r.id = open.id
    RETURNING r.id, r.kind, r.pipeline_id, r.params, r.owner, r.attempt
)
SELECT taken.*, p.name, p.version, p.status AS pipeline_status,
       CASE WHEN p.id IS NOT NULL THEN etl.pipeline_config(p) END AS config
FROM taken LEFT JOIN etl.etl_pipelines p ON p.id = taken.pipeline_id

-- name: bury
-- Requests that have lost their runner too often. Zero rows: there are none, or somebody keeps them locked.
WITH lost AS (
    SELECT r.id FROM etl.etl_requests r
    WHERE r.status IN ('REQUESTED', 'RUNNING') AND (r.status = 'REQUESTED' OR r.expires_at <= clock_timestamp())
      AND r.attempt >= %(attempts)s
    FOR UPDATE SKIP LOCKED
)
UPDATE etl.etl_requests r
SET status = 'FAILED', owner = NULL, expires_at = NULL, finished_at = clock_timestamp(),
    error = format('the runner was lost %%s times in a row while working on this request', r.attempt)
FROM lost WHERE r.id = lost.id
RETURNING r.id

-- name: renew
-- The heartbeat. A request that is not in the answer is lost: it expired, was taken by another, or is gone. One that
-- somebody keeps locked is passed over, so that the heart still beats for the others; it is ours until it expires.
WITH mine AS (
    SELECT r.id, r.attempt FROM etl.etl_requests r
    WHERE r.owner = %(owner)s AND r.status = 'RUNNING' AND r.expires_at > clock_timestamp()
      AND (r.id, r.attempt) IN (SELECT * FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]))
), free AS (
    SELECT r.id FROM etl.etl_requests r JOIN mine USING (id, attempt)
    WHERE r.owner = %(owner)s AND r.status = 'RUNNING' AND r.expires_at > clock_timestamp()
    FOR UPDATE OF r SKIP LOCKED
), renewed AS (
    UPDATE etl.etl_requests r SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM free WHERE r.id = free.id
)
SELECT id, attempt FROM mine

-- name: hold
-- Whether it is still ours, as the last statement of a transaction. Zero rows: another runner has it by now.
SELECT id FROM etl.etl_requests
WHERE id = %(id)s AND owner = %(owner)s AND attempt = %(attempt)s AND status = 'RUNNING'

-- name: finish
-- Zero rows: another runner has it by now, or its pipeline is gone.
UPDATE etl.etl_requests
SET status = 'DONE', result = %(result)s, owner = NULL, expires_at = NULL, finished_at = clock_timestamp()
WHERE id = %(id)s AND owner = %(owner)s AND attempt = %(attempt)s AND status = 'RUNNING'
RETURNING id

-- name: fail
-- Zero rows: another runner has it by now, or its pipeline is gone.
UPDATE etl.etl_requests
SET status = 'FAILED', error = %(error)s, remedy = %(remedy)s, owner = NULL, expires_at = NULL, finished_at = clock_timestamp()
WHERE id = %(id)s AND owner = %(owner)s AND attempt = %(attempt)s AND status = 'RUNNING'
RETURNING id

-- name: give_back
-- The runner ends, and another answers: no attempt is spent. Zero rows: another runner has it by now.
UPDATE etl.etl_requests
SET status = 'REQUESTED', owner = NULL, expires_at = NULL, attempt = attempt - 1
WHERE id = %(id)s AND owner = %(owner)s AND attempt = %(attempt)s AND status = 'RUNNING'
RETURNING id

-- name: let_go
-- A database was lost under it: whoever comes next tries again, and the attempt is spent. Zero rows: as above.
UPDATE etl.etl_requests
SET status = 'REQUESTED', owner = NULL, expires_at = NULL
WHERE id = %(id)s AND owner = %(owner)s AND attempt = %(attempt)s AND status = 'RUNNING'
RETURNING id
