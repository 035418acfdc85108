-- name: choose
-- The ids of one page of the overview, in order, and how many pass the filters. What is grouped by a label's name is
-- first in the order of its values, those without it last. What is sorted by a number has its own
-- key, by a text another; the name decides ties. Runs are looked at only when the order needs them, and then each
-- pipeline costs one descent of etl_runs_recent.
SELECT p.id, count(*) OVER () AS total, g.value AS in_group, count(*) OVER (PARTITION BY g.value) AS group_total
FROM etl.etl_pipelines p
LEFT JOIN LATERAL (
    SELECT substr(l.label, length(%(group)s) + 2) AS value
    FROM unnest(p.labels) WITH ORDINALITY AS l (label, number)
    WHERE l.label = %(group)s OR starts_with(l.label, %(group)s || ':')
    ORDER BY l.number LIMIT 1) g ON true
LEFT JOIN LATERAL (
    SELECT r.*, greatest(r.rows_read, r.rows_written + r.rows_deleted)
                / greatest(extract(epoch FROM coalesce(r.finished_at, now()) - r.started_at), 0.001) AS rate
    FROM etl.etl_runs r WHERE r.pipeline_id = p.id AND %(sort)s IN ('last', 'rows', 'rate')
    ORDER BY r.id DESC LIMIT 1) r ON true
LEFT JOIN LATERAL (
    SELECT g.tried_at FROM etl.etl_runs g
    WHERE g.pipeline_id = p.id AND g.status = 'SUCCESS' AND %(sort)s = 'fresh'
    ORDER BY g.id DESC LIMIT 1) good ON true
CROSS JOIN LATERAL (
    SELECT CASE %(sort)s
               WHEN 'status' THEN
                   array_position('{FAILED,RUNNING,PAUSE_REQUESTED,RUN_REQUESTED,PAUSED,FOLLOWING,IDLE}', p.status)
               WHEN 'last' THEN -extract(epoch FROM r.started_at)
               WHEN 'rows' THEN -(r.rows_written + r.rows_deleted)
               WHEN 'rate' THEN -r.rate
               WHEN 'fresh' THEN extract(epoch FROM good.tried_at)
               WHEN 'next' THEN extract(epoch FROM p.due_at)
           END * CASE WHEN %(descending)s THEN -1 ELSE 1 END AS number,
           CASE %(sort)s WHEN 'target' THEN p.effective_target WHEN 'mode' THEN p.mode ELSE p.name END AS text) k
WHERE (%(status)s::text IS NULL OR p.status = %(status)s)
  AND (%(enabled)s::boolean IS NULL OR p.enabled = %(enabled)s)
  AND (%(mode)s::text IS NULL OR p.mode = %(mode)s)
  AND (%(text)s::text IS NULL
       OR strpos(lower(concat_ws(' ', p.name, p.effective_target, p.description)), lower(%(text)s)) > 0)
  AND etl.has_labels(p.labels, %(labels)s::text[]) AND p.targets = '{}'
ORDER BY g.value NULLS LAST, k.number NULLS LAST, CASE WHEN NOT %(descending)s THEN k.text END,
         CASE WHEN %(descending)s THEN k.text END DESC,
         p.name
LIMIT %(limit)s OFFSET %(offset)s

-- name: pipelines
-- These pipelines, in the order of the ids, each with its last run and when its data was last known to be right.
SELECT p.id, p.name, p.description, p.labels, etl.status_of(p) AS status, p.enabled, p.version, p.mode, p.effective_target AS target, p.due_at,
       p.schedule_interval, s.last_processed_value, r.id AS run_id, r.status AS run_status, r.started_at, r.finished_at,
       r.rows_read, r.rows_written, r.rows_deleted, r.rows_unchanged, r.batches, r.error, r.remedy, good.tried_at AS fresh_at,
       coalesce(late.neighbour, silent.waits_for) AS waits_for, coalesce(late.since, silent.waits_since) AS waits_since,
       late.failed_since, late.next_at, late.tries, held.since AS held_since, held.holder, p.freshness_limit, age.share AS age_share
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS chosen (id, number)
JOIN etl.etl_pipelines p ON p.id = chosen.id
LEFT JOIN etl.etl_state s ON s.pipeline_id = p.id  -- of several targets each has its own
LEFT JOIN LATERAL (SELECT * FROM etl.etl_runs WHERE pipeline_id = p.id ORDER BY id DESC LIMIT 1) r ON true
LEFT JOIN LATERAL (SELECT tried_at FROM etl.etl_runs WHERE pipeline_id = p.id AND status = 'SUCCESS'
                   ORDER BY id DESC LIMIT 1) good ON true
LEFT JOIN LATERAL (  -- its source or sink, if that does not answer a living runner
    SELECT n.key AS waits_for, min((n.value ->> 'since')::timestamptz) AS waits_since
    FROM etl.etl_runners w, jsonb_each(w.neighbours) n
    WHERE w.seen_at > now() - interval '2 minutes'
      AND n.key IN (p.source, split_part(coalesce(p.effective_target, ''), ':', 1) || ':')
    GROUP BY n.key ORDER BY 2 LIMIT 1) silent ON true
LEFT JOIN LATERAL (  -- how much of what it may be old it is, in steps of 5: a page need not be told of less
    SELECT 5 * least(20, floor(20 * extract(epoch FROM clock_timestamp() - coalesce(f.fresh_at, p.created_at))
                               / nullif(extract(epoch FROM f.allowed), 0)))::int AS share
    FROM etl.etl_freshness f WHERE f.pipeline_id = p.id) age ON p.freshness_limit IS NOT NULL AND p.enabled
LEFT JOIN etl.etl_waits held ON held.pipeline_id = p.id  -- who keeps it from going live
    AND p.status IN ('RUN_REQUESTED', 'RUNNING') AND p.enabled AND p.mode = 'live'
LEFT JOIN LATERAL (  -- it waits until that answers, or has failed and is tried again
    SELECT w.neighbour, CASE WHEN w.neighbour IS NOT NULL THEN w.since END AS since,
           CASE WHEN w.neighbour IS NULL THEN w.since END AS failed_since, p.due_at AS next_at, w.tries
    FROM etl.etl_postponed w
    WHERE w.pipeline_id = p.id AND p.status = 'RUN_REQUESTED' AND p.enabled
      AND (w.neighbour IS NOT NULL OR p.due_at > clock_timestamp())) late ON true
ORDER BY chosen.number

-- name: needs
-- What is wrong with enabled pipelines and needs a person, the worst first, and how much there is of it in all.
SELECT p.id, p.name, p.status, p.enabled, i.kind, i.since, p.freshness_limit,
       coalesce(r.error, w.error, CASE WHEN i.kind = 'check' THEN (
           SELECT string_agg(k.name, ', ' ORDER BY k.name) FROM etl.etl_checks k
           WHERE k.pipeline_id = p.id AND k.outcome IN ('broken', 'unasked')) END) AS error,
       coalesce(r.remedy, w.remedy) AS remedy, w.neighbour, count(*) OVER () AS total
FROM etl.etl_incidents i
JOIN etl.etl_pipelines p ON p.id = i.pipeline_id
LEFT JOIN LATERAL (SELECT e.error, e.remedy FROM etl.etl_runs e WHERE e.pipeline_id = p.id AND e.error IS NOT NULL
                   ORDER BY e.id DESC LIMIT 1) r ON i.kind = 'failed'
LEFT JOIN etl.etl_postponed w ON w.pipeline_id = p.id AND i.kind = 'outage'
WHERE p.enabled
ORDER BY array_position('{failed,wrong,check,stuck,stale,outage}', i.kind), i.since DESC, p.name
LIMIT %(limit)s

-- name: last_runs
-- The last runs of many pipelines at once, newest first.
SELECT r.* FROM unnest(%(ids)s::uuid[]) AS p (id) CROSS JOIN LATERAL (
    SELECT id, pipeline_id, status, started_at, finished_at, rows_read, rows_written, rows_deleted, error
    FROM etl.etl_runs WHERE pipeline_id = p.id ORDER BY id DESC LIMIT %(limit)s) r

-- name: tally
SELECT p.status, count(*) AS pipelines, count(*) FILTER (WHERE NOT p.enabled) AS disabled
FROM etl.etl_pipelines p WHERE p.targets = '{}' GROUP BY p.status

-- name: modes
SELECT DISTINCT mode FROM etl.etl_pipelines ORDER BY mode

-- name: labels
-- Those in use.
SELECT l.label, count(*) AS pipelines FROM etl.etl_pipelines p CROSS JOIN LATERAL unnest(p.labels) AS l (label)
WHERE p.targets = '{}' GROUP BY l.label ORDER BY l.label

-- name: last_events
-- The end of what a run said, in order; only lines that hold a text, if one is given, or are events that are named.
SELECT * FROM (
    SELECT e.id, e.at, e.level, e.event, e.fields FROM etl.etl_run_events e
    WHERE e.run_id = %(run_id)s
      AND (%(text)s::text IS NULL OR e.event = ANY(%(named)s) OR strpos(lower(concat_ws(' ', e.level, e.event, e.fields)), lower(%(text)s)) > 0)
    ORDER BY e.id DESC LIMIT %(limit)s) AS tail
ORDER BY id

-- name: steps
-- What took time in a run, in order, from its first event to its last: each step by itself, or, where there are more than
-- `slots`, one row for each kind of event and slot of time in which some ended.
WITH steps AS (
    SELECT e.id, e.at, e.event, e.fields, (e.fields->>'ms')::float8 / 1000 AS seconds,
           count(*) OVER () AS steps, min(e.at) OVER () AS first, max(e.at) OVER () AS last
    FROM etl.etl_run_events e WHERE e.run_id = %(run_id)s AND e.fields ? 'ms'
), placed AS (
    SELECT *, CASE WHEN steps <= %(slots)s THEN id
                   ELSE width_bucket(extract(epoch FROM at - first), 0, extract(epoch FROM last - first) + 0.001, %(slots)s) END AS slot
    FROM steps
)
SELECT event, count(*) AS times, sum(seconds) AS seconds, min(at - make_interval(secs => seconds)) AS began,
       max(at) AS ended, (array_agg(fields ORDER BY id DESC))[1] AS fields
FROM placed GROUP BY event, slot ORDER BY min(id)

-- name: leases
-- What runners hold: runs, marts that they follow, and requests that are no runs.
SELECT l.owner, l.runner, p.name AS pipeline, p.id AS pipeline_id, l.run_id,
       CASE p.status WHEN 'FOLLOWING' THEN 'following' ELSE 'run' END AS kind, l.expires_at, l.crashes
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
       pg_database_size(current_database()) AS size, pg_postmaster_start_time() AS since,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS sessions,
       current_setting('max_connections')::int AS max_sessions, pg_is_in_recovery() AS standby
