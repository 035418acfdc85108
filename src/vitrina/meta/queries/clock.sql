-- The database's clock, when it jumps. What is kept in the meta-store as a time to come is a promise by the old clock.

-- name: look
SELECT clock_timestamp() AS now, seen_at, set_back, jumped_at, extract(epoch FROM jumped_by)::float8 AS jumped_by,
       seen_at > clock_timestamp() + make_interval(secs => %(leeway)s) AS was_set_back
FROM etl.etl_clock

-- name: see
-- The heartbeat: it is so late now. One that somebody keeps locked is passed over.
UPDATE etl.etl_clock SET seen_at = clock_timestamp()
WHERE one = (SELECT c.one FROM etl.etl_clock c WHERE c.seen_at < clock_timestamp() - interval '1 second'
             FOR UPDATE SKIP LOCKED)

-- name: go_back
-- The clock was set back: by how much, and it is seen anew from here. Zero rows: another runner was first.
WITH before AS (
    SELECT seen_at, clock_timestamp() AS now FROM etl.etl_clock
    WHERE seen_at > clock_timestamp() + make_interval(secs => %(leeway)s)
    FOR UPDATE SKIP LOCKED
)
UPDATE etl.etl_clock c
SET seen_at = before.now, set_back = c.set_back + 1, jumped_at = before.now, jumped_by = before.now - before.seen_at
FROM before
RETURNING before.now, before.seen_at - before.now AS by

-- name: patience
SELECT set_config('lock_timeout', '1s', true)

-- name: await_pipelines
-- Somebody may be about to change one.
SELECT id FROM etl.etl_pipelines WHERE due_at > %(now)s OR last_due_at > %(now)s FOR UPDATE

-- name: plan_anew
-- Schedules go by the new time: what was planned or run at a time to come is planned from now on, what was asked for
-- is due at once.
UPDATE etl.etl_pipelines p
SET due_at = CASE WHEN p.due_at > %(now)s AND (p.status = 'RUN_REQUESTED' OR p.schedule_interval IS NULL) THEN %(now)s::timestamptz
                  WHEN p.due_at <= %(now)s THEN p.due_at END,
    last_due_at = CASE WHEN p.last_due_at <= %(now)s THEN p.last_due_at END
FROM (SELECT id FROM etl.etl_pipelines WHERE due_at > %(now)s OR last_due_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE p.id = free.id

-- name: shift_leases
-- Whoever holds something keeps it for as long as it would have.
UPDATE etl.etl_leases l SET expires_at = l.expires_at - %(by)s
FROM (SELECT pipeline_id FROM etl.etl_leases WHERE expires_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE l.pipeline_id = free.pipeline_id

-- name: shift_requests
UPDATE etl.etl_requests r SET expires_at = r.expires_at - %(by)s
FROM (SELECT id FROM etl.etl_requests WHERE expires_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE r.id = free.id

-- name: shift_captures
UPDATE etl.etl_captures c
SET expires_at = CASE WHEN c.expires_at > %(now)s THEN c.expires_at - %(by)s ELSE c.expires_at END,
    retry_at = CASE WHEN c.retry_at > %(now)s THEN c.retry_at - %(by)s ELSE c.retry_at END,
    generation_at = CASE WHEN c.generation_at > %(now)s THEN c.generation_at - %(by)s ELSE c.generation_at END
FROM (SELECT source FROM etl.etl_captures FOR UPDATE SKIP LOCKED) AS free
WHERE c.source = free.source AND greatest(c.expires_at, c.retry_at, c.generation_at) > %(now)s

-- name: shift_audits
UPDATE etl.etl_mart_audits a SET next_at = a.next_at - %(by)s
FROM (SELECT pipeline_id FROM etl.etl_mart_audits WHERE next_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE a.pipeline_id = free.pipeline_id

-- name: shift_alerts
UPDATE etl.etl_alerts a SET next_at = a.next_at - %(by)s
FROM (SELECT id FROM etl.etl_alerts WHERE status = 'PENDING' AND next_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE a.id = free.id

-- name: shift_deliveries
UPDATE etl.etl_deliveries d SET next_at = d.next_at - %(by)s
FROM (SELECT id FROM etl.etl_deliveries WHERE status = 'PENDING' AND next_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE d.id = free.id

-- name: shift_destinations
UPDATE etl.etl_destinations t SET seen_at = t.seen_at - %(by)s
FROM (SELECT name FROM etl.etl_destinations WHERE seen_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE t.name = free.name

-- name: shift_behind
UPDATE etl.etl_behind b SET still_since = b.still_since - %(by)s
FROM (SELECT pipeline_id FROM etl.etl_behind WHERE still_since > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE b.pipeline_id = free.pipeline_id

-- name: shift_waits
UPDATE etl.etl_waits w SET looked_at = w.looked_at - %(by)s, since = w.since - %(by)s
FROM (SELECT pipeline_id FROM etl.etl_waits WHERE looked_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE w.pipeline_id = free.pipeline_id

-- name: shift_postponed
UPDATE etl.etl_postponed w SET next_at = w.next_at - %(by)s, since = w.since - %(by)s
FROM (SELECT pipeline_id FROM etl.etl_postponed WHERE next_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE w.pipeline_id = free.pipeline_id

-- name: shift_looks
UPDATE etl.etl_dependency_looks l SET looked_at = l.looked_at - %(by)s
FROM (SELECT source FROM etl.etl_dependency_looks WHERE looked_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE l.source = free.source

-- name: shift_runners
UPDATE etl.etl_runners r SET seen_at = r.seen_at - %(by)s
FROM (SELECT id FROM etl.etl_runners WHERE seen_at > %(now)s FOR UPDATE SKIP LOCKED) AS free
WHERE r.id = free.id

-- name: wake_followers
-- Live marts that rest until a time to come. One that is being run keeps its own.
UPDATE etl.etl_state s SET checkpoint = s.checkpoint #- '{live,not_before}' #- '{live,compare_after}'
FROM (SELECT pipeline_id FROM etl.etl_state
      WHERE checkpoint -> 'live' ?| ARRAY['not_before', 'compare_after'] FOR UPDATE SKIP LOCKED) AS free
WHERE s.pipeline_id = free.pipeline_id

-- name: note_forward
-- It was set forward, as far as this runner can tell. Zero rows: another has noted it.
UPDATE etl.etl_clock c SET seen_at = clock_timestamp(), jumped_at = clock_timestamp(), jumped_by = make_interval(secs => %(by)s)
FROM (SELECT one FROM etl.etl_clock
      WHERE jumped_at IS NULL OR jumped_at < clock_timestamp() - make_interval(secs => %(by)s) FOR UPDATE SKIP LOCKED) AS free
WHERE c.one = free.one
RETURNING c.one

-- name: keep_leases
-- The clock was set forward: what was held before has expired by it alone, and is held for as long as was left.
UPDATE etl.etl_leases l SET expires_at = clock_timestamp() + (l.expires_at - %(before)s)
FROM (SELECT pipeline_id FROM etl.etl_leases WHERE expires_at > %(before)s AND expires_at <= clock_timestamp()
      FOR UPDATE SKIP LOCKED) AS free
WHERE l.pipeline_id = free.pipeline_id

-- name: keep_requests
UPDATE etl.etl_requests r SET expires_at = clock_timestamp() + (r.expires_at - %(before)s)
FROM (SELECT id FROM etl.etl_requests WHERE status = 'RUNNING' AND expires_at > %(before)s AND expires_at <= clock_timestamp()
      FOR UPDATE SKIP LOCKED) AS free
WHERE r.id = free.id

-- name: keep_captures
UPDATE etl.etl_captures c SET expires_at = clock_timestamp() + (c.expires_at - %(before)s)
FROM (SELECT source FROM etl.etl_captures WHERE expires_at > %(before)s AND expires_at <= clock_timestamp()
      FOR UPDATE SKIP LOCKED) AS free
WHERE c.source = free.source
