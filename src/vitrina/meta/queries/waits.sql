-- What pipelines wait for that cannot go live yet, without a slot.

-- name: find
-- Zero rows: it waits for nobody.
SELECT barrier, context FROM etl.etl_waits WHERE pipeline_id = %(pipeline_id)s

-- name: note
-- In a fenced transaction of the run that begins to wait, or goes on waiting.
INSERT INTO etl.etl_waits (pipeline_id, barrier, context, holder)
VALUES (%(pipeline_id)s, %(barrier)s, %(context)s, %(holder)s)
ON CONFLICT (pipeline_id) DO UPDATE
SET barrier = EXCLUDED.barrier, context = EXCLUDED.context, holder = EXCLUDED.holder, looked_at = clock_timestamp(),
    since = CASE WHEN etl_waits.barrier = EXCLUDED.barrier THEN etl_waits.since ELSE EXCLUDED.since END

-- name: forget
-- In the transaction that begins the comparison. Zero rows: it did not have to wait.
DELETE FROM etl.etl_waits WHERE pipeline_id = %(pipeline_id)s

-- name: any
SELECT EXISTS (SELECT FROM etl.etl_waits w JOIN etl.etl_pipelines p ON p.id = w.pipeline_id
               WHERE p.status = 'RUN_REQUESTED' AND p.enabled AND p.mode = 'live') AS yes

-- name: turns
-- Those that nobody has looked at for so long; whoever gets one looks. Zero rows: none, or another has them.
WITH open AS (
    SELECT w.pipeline_id FROM etl.etl_waits w JOIN etl.etl_pipelines p ON p.id = w.pipeline_id
    WHERE p.status = 'RUN_REQUESTED' AND p.enabled AND p.mode = 'live'
      AND w.looked_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
    FOR UPDATE OF w SKIP LOCKED
)
UPDATE etl.etl_waits w SET looked_at = clock_timestamp() FROM open, etl.etl_pipelines p
WHERE w.pipeline_id = open.pipeline_id AND p.id = w.pipeline_id
RETURNING w.pipeline_id, p.name, p.source, w.barrier

-- name: still
-- Who holds it now; and it need not be claimed just to find out. Zero rows: it was claimed or paused, or is locked.
WITH seen AS (
    UPDATE etl.etl_waits SET holder = %(holder)s WHERE pipeline_id = %(pipeline_id)s
), free AS (
    SELECT p.id FROM etl.etl_pipelines p
    WHERE p.id = %(pipeline_id)s AND p.status = 'RUN_REQUESTED' AND p.due_at > clock_timestamp()
    FOR UPDATE SKIP LOCKED
)
UPDATE etl.etl_pipelines p SET due_at = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM free WHERE p.id = free.id
RETURNING p.id

-- name: over
-- Nobody is waited for any more: it is due, and runners are told. Zero rows: it is due anyway, was paused, or is locked.
WITH free AS (
    SELECT p.id FROM etl.etl_pipelines p
    WHERE p.id = %(pipeline_id)s AND p.status = 'RUN_REQUESTED' AND p.due_at > clock_timestamp()
    FOR UPDATE SKIP LOCKED
), due AS (
    UPDATE etl.etl_pipelines p SET due_at = clock_timestamp() FROM free WHERE p.id = free.id
    RETURNING p.id
)
SELECT pg_notify('vitrina_wake', due.id::text) FROM due

-- name: shown
-- For people: of these pipelines, or of all, those that wait now.
SELECT w.pipeline_id, p.name, p.source, w.since, w.holder
FROM etl.etl_waits w JOIN etl.etl_pipelines p ON p.id = w.pipeline_id
WHERE p.status IN ('RUN_REQUESTED', 'RUNNING') AND p.enabled AND p.mode = 'live'
  AND (%(ids)s::uuid[] IS NULL OR p.id = ANY (%(ids)s))
ORDER BY w.since
