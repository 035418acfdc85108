-- name: add_task
INSERT INTO etl.etl_pipeline_tasks (pipeline_id, order_index, task_type, body, target_table)
VALUES (%(pipeline_id)s, %(order_index)s, %(task_type)s, %(body)s, %(target_table)s)

-- name: find
-- By uuid or by name; a uuid wins over a name that looks like one.
SELECT p.id, p.name, etl.status_of(p) AS status, p.enabled, p.version, p.due_at, p.effective_target, p.part_of,
       etl.members_of(p) AS members, etl.pipeline_config(p) AS config
FROM etl.etl_pipelines p
WHERE p.id::text = lower(%(which)s) OR p.name = %(which)s
ORDER BY p.id::text = lower(%(which)s) DESC

-- name: list
SELECT p.id, p.name, etl.status_of(p) AS status, p.enabled, p.version, p.due_at, p.effective_target, p.part_of,
       etl.members_of(p) AS members, etl.pipeline_config(p) AS config
FROM etl.etl_pipelines p
ORDER BY p.name

-- name: request_run
-- Zero rows: it does not exist, is disabled, or has been requested or started already.
UPDATE etl.etl_pipelines
SET status = CASE status WHEN 'PAUSE_REQUESTED' THEN 'RUNNING' ELSE 'RUN_REQUESTED' END,
    run_options = CASE status WHEN 'PAUSE_REQUESTED' THEN '{}' ELSE %(options)s END
WHERE id = %(id)s AND enabled AND status IN ('IDLE', 'FAILED', 'PAUSED', 'PAUSE_REQUESTED', 'FOLLOWING')
RETURNING status

-- name: ask_again
-- Of one that is due together with others: what was read for them before now is not what is asked for.
UPDATE etl.etl_pipelines SET due_at = now()
WHERE id = %(id)s AND part_of IS NOT NULL AND status = 'RUN_REQUESTED' AND due_at < now()

-- name: request_pause
-- `now`: what the run has under way is cancelled; one that was asked to pause may be told so too. Zero rows: it does not
-- exist, has failed, rests already, or was asked the same before.
UPDATE etl.etl_pipelines
SET status = CASE WHEN status IN ('RUNNING', 'PAUSE_REQUESTED') THEN 'PAUSE_REQUESTED' ELSE 'PAUSED' END,
    run_options = CASE WHEN %(now)s AND status IN ('RUNNING', 'PAUSE_REQUESTED') THEN '{"now": true}'::jsonb ELSE '{}' END
WHERE id = %(id)s AND (status IN ('RUNNING', 'IDLE', 'RUN_REQUESTED', 'FOLLOWING')
                       OR %(now)s AND status = 'PAUSE_REQUESTED' AND NOT run_options ? 'now')
RETURNING status

-- name: unplanned
-- Scheduled pipelines that have no due time yet: new, edited, or just finished.
SELECT id, name, schedule_interval, last_due_at, now() AS now
FROM etl.etl_pipelines
WHERE enabled AND due_at IS NULL AND status = 'IDLE' AND schedule_interval IS NOT NULL AND targets = '{}'

-- name: schedule
-- Zero rows: somebody planned or moved it meanwhile, has even run it at that time, or keeps it locked: planned later.
WITH free AS (
    SELECT id FROM etl.etl_pipelines
    WHERE id = %(id)s AND enabled AND due_at IS NULL AND status = 'IDLE' AND schedule_interval = %(schedule_interval)s
      AND (last_due_at IS NULL OR last_due_at < %(due_at)s)
    FOR UPDATE SKIP LOCKED
)
UPDATE etl.etl_pipelines p SET due_at = %(due_at)s FROM free WHERE p.id = free.id

-- name: wake_live
-- Live pipelines without a schedule do not rest, they are followed. One that does is run, which makes it so: it was never
-- live, has to be compared, was disabled for a while, or is of an older program. One that somebody keeps locked is woken
-- later: the others do not wait for it.
WITH found AS (
    SELECT f.pipeline_id FROM etl.etl_followers f
    WHERE f.enabled AND f.status = 'IDLE' AND f.due_at IS NULL AND f.schedule_interval IS NULL
      AND f.captured AND coalesce(f.not_before <= clock_timestamp(), true)
), woken AS (
    SELECT p.id FROM etl.etl_pipelines p JOIN found ON found.pipeline_id = p.id
    WHERE p.mode = 'live' AND p.enabled AND p.status = 'IDLE' AND p.due_at IS NULL AND p.schedule_interval IS NULL
    FOR UPDATE OF p SKIP LOCKED
)
UPDATE etl.etl_pipelines p SET due_at = clock_timestamp() FROM woken WHERE p.id = woken.id

-- name: count_by_source
-- How many pipelines read each source.
SELECT source, count(*) AS count FROM etl.etl_pipelines WHERE part_of IS NULL GROUP BY source
