-- name: choose
-- The ids of one page of the overview, in order, and how many pass the filters. What is sorted by a number has its own
-- key, by a text another; the name decides ties. Runs are looked at only when the order needs them, and then each
-- pipeline costs one descent of etl_runs_recent.
SELECT p.id, count(*) OVER () AS total
FROM etl.etl_pipelines p
LEFT JOIN LATERAL (
    SELECT r.*, greatest(r.rows_read, r.rows_written + r.rows_deleted)
                / greatest(extract(epoch FROM coalesce(r.finished_at, now()) - r.started_at), 0.001) AS rate
    FROM etl.etl_runs r WHERE r.pipeline_id = p.id AND %(sort)s IN ('last', 'rows', 'rate')
    ORDER BY r.id DESC LIMIT 1) r ON true
LEFT JOIN LATERAL (
    SELECT g.started_at FROM etl.etl_runs g
    WHERE g.pipeline_id = p.id AND g.status = 'SUCCESS' AND %(sort)s = 'fresh'
    ORDER BY g.id DESC LIMIT 1) good ON true
CROSS JOIN LATERAL (
    SELECT CASE %(sort)s
               WHEN 'status' THEN
                   array_position('{FAILED,RUNNING,PAUSE_REQUESTED,RUN_REQUESTED,PAUSED,IDLE}', p.status)
               WHEN 'last' THEN -extract(epoch FROM r.started_at)
               WHEN 'rows' THEN -(r.rows_written + r.rows_deleted)
               WHEN 'rate' THEN -r.rate
               WHEN 'fresh' THEN extract(epoch FROM good.started_at)
               WHEN 'next' THEN extract(epoch FROM p.due_at)
           END * CASE WHEN %(descending)s THEN -1 ELSE 1 END AS number,
           CASE %(sort)s WHEN 'target' THEN p.effective_target WHEN 'mode' THEN p.mode ELSE p.name END AS text) k
WHERE (%(status)s::text IS NULL OR p.status = %(status)s)
  AND (%(enabled)s::boolean IS NULL OR p.enabled = %(enabled)s)
  AND (%(mode)s::text IS NULL OR p.mode = %(mode)s)
  AND (%(text)s::text IS NULL
       OR strpos(lower(concat_ws(' ', p.name, p.effective_target, p.description)), lower(%(text)s)) > 0)
ORDER BY k.number NULLS LAST, CASE WHEN NOT %(descending)s THEN k.text END,
         CASE WHEN %(descending)s THEN k.text END DESC,
         p.name
LIMIT %(limit)s OFFSET %(offset)s

-- name: pipelines
-- These pipelines, in the order of the ids, each with its last run and when its data was last known to be right.
SELECT p.id, p.name, p.description, p.status, p.enabled, p.version, p.mode, p.effective_target AS target, p.due_at,
       p.schedule_interval, s.last_processed_value, r.id AS run_id, r.status AS run_status, r.started_at, r.finished_at,
       r.rows_read, r.rows_written, r.rows_deleted, r.rows_unchanged, r.batches, r.error, r.remedy, good.started_at AS fresh_at,
       silent.waits_for, silent.waits_since, held.since AS held_since, held.holder
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS chosen (id, number)
JOIN etl.etl_pipelines p ON p.id = chosen.id
JOIN etl.etl_state s ON s.pipeline_id = p.id
LEFT JOIN LATERAL (SELECT * FROM etl.etl_runs WHERE pipeline_id = p.id ORDER BY id DESC LIMIT 1) r ON true
LEFT JOIN LATERAL (SELECT started_at FROM etl.etl_runs WHERE pipeline_id = p.id AND status = 'SUCCESS'
                   ORDER BY id DESC LIMIT 1) good ON true
LEFT JOIN LATERAL (  -- its source or sink, if that does not answer a living runner
    SELECT n.key AS waits_for, min((n.value ->> 'since')::timestamptz) AS waits_since
    FROM etl.etl_runners w, jsonb_each(w.neighbours) n
    WHERE w.seen_at > now() - interval '2 minutes'
      AND n.key IN (p.source, split_part(coalesce(p.effective_target, ''), ':', 1) || ':')
    GROUP BY n.key ORDER BY 2 LIMIT 1) silent ON true
LEFT JOIN etl.etl_waits held ON held.pipeline_id = p.id  -- who keeps it from going live
    AND p.status IN ('RUN_REQUESTED', 'RUNNING') AND p.enabled AND p.mode = 'live'
ORDER BY chosen.number

-- name: last_runs
-- The last runs of many pipelines at once, newest first.
SELECT r.* FROM unnest(%(ids)s::uuid[]) AS p (id) CROSS JOIN LATERAL (
    SELECT id, pipeline_id, status, started_at, finished_at, rows_read, rows_written, rows_deleted, error
    FROM etl.etl_runs WHERE pipeline_id = p.id ORDER BY id DESC LIMIT %(limit)s) r

-- name: tally
SELECT p.status, count(*) AS pipelines, count(*) FILTER (WHERE NOT p.enabled) AS disabled
FROM etl.etl_pipelines p GROUP BY p.status

-- name: modes
SELECT DISTINCT mode FROM etl.etl_pipelines ORDER BY mode

-- name: attempts
-- The attempts that belong together: from the last first attempt before a run to the next one after it.
SELECT r.* FROM etl.etl_runs r
WHERE r.pipeline_id = %(pipeline_id)s
  AND r.id >= coalesce((SELECT max(id) FROM etl.etl_runs
                        WHERE pipeline_id = %(pipeline_id)s AND id <= %(run_id)s AND attempt = 1), %(run_id)s)
  AND r.id < coalesce((SELECT min(id) FROM etl.etl_runs
                       WHERE pipeline_id = %(pipeline_id)s AND id > %(run_id)s AND attempt = 1), 9223372036854775807)
ORDER BY r.id

-- name: last_events
-- The end of what a run said, in order; only lines that hold a text, if one is given, or are events that are named.
SELECT * FROM (
    SELECT e.id, e.at, e.level, e.event, e.fields FROM etl.etl_run_events e
    WHERE e.run_id = %(run_id)s
      AND (%(text)s::text IS NULL OR e.event = ANY(%(named)s) OR strpos(lower(concat_ws(' ', e.level, e.event, e.fields)), lower(%(text)s)) > 0)
    ORDER BY e.id DESC LIMIT %(limit)s) AS tail
ORDER BY id

-- name: leases
-- What runners hold: runs, and requests that are no runs.
SELECT l.owner, l.runner, p.name AS pipeline, p.id AS pipeline_id, l.run_id, 'run' AS kind, l.expires_at, l.crashes
FROM etl.etl_leases l JOIN etl.etl_pipelines p ON p.id = l.pipeline_id WHERE l.owner IS NOT NULL
UNION ALL
SELECT q.owner, q.runner, p.name, q.pipeline_id, NULL, q.kind, q.expires_at, q.attempt - 1
FROM etl.etl_requests q LEFT JOIN etl.etl_pipelines p ON p.id = q.pipeline_id WHERE q.status = 'RUNNING'
ORDER BY runner, pipeline

-- name: audit
-- Who did what, newest first; of one pipeline, if one is named.
SELECT a.id, a.at, a.actor, a.action, a.pipeline_id, a.details, coalesce(p.name, a.details ->> 'name') AS name
FROM etl.etl_audit a LEFT JOIN etl.etl_pipelines p ON p.id = a.pipeline_id
WHERE %(pipeline_id)s::uuid IS NULL OR a.pipeline_id = %(pipeline_id)s
ORDER BY a.id DESC LIMIT %(limit)s

-- name: versions
SELECT (SELECT version_num FROM etl.alembic_version) AS schema, current_setting('server_version') AS postgres,
       pg_size_pretty(pg_database_size(current_database())) AS size, pg_postmaster_start_time() AS since,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS sessions,
       current_setting('max_connections')::int AS max_sessions, pg_is_in_recovery() AS standby
