-- name: note_behind
-- Live marts that lack something, and whose last change is no longer recent: from now on they grow older.
INSERT INTO etl.etl_behind (pipeline_id)
SELECT f.pipeline_id FROM etl.etl_freshness f
WHERE f.behind AND f.known_at < clock_timestamp() - interval '10 seconds'
ON CONFLICT DO NOTHING

-- name: note_caught_up
WITH behind AS MATERIALIZED (SELECT f.pipeline_id FROM etl.etl_freshness f WHERE f.behind)
DELETE FROM etl.etl_behind b WHERE NOT EXISTS (SELECT FROM behind WHERE behind.pipeline_id = b.pipeline_id)

-- name: drop_stale
-- Nobody waits for these any more: without a limit, or disabled, a mart may be as old as it likes.
DELETE FROM etl.etl_incidents i USING etl.etl_pipelines p
WHERE p.id = i.pipeline_id AND i.kind = 'stale' AND (p.freshness_limit IS NULL OR NOT p.enabled)

-- name: judge_age
-- Marts that have become stale, and those that are fresh again. Materialised: the ages are computed once, whatever the
-- planner believes of tables that were empty a moment ago.
WITH f AS MATERIALIZED (
    SELECT f.pipeline_id, f.fresh_at, f.stale FROM etl.etl_freshness f WHERE f.allowed IS NOT NULL
)
SELECT CASE WHEN f.stale
            THEN etl.open_incident(p, 'stale', jsonb_build_object('fresh_at', f.fresh_at, 'limit', p.freshness_limit))
            ELSE etl.close_incident(p, 'stale') END
FROM f
JOIN etl.etl_pipelines p ON p.id = f.pipeline_id
LEFT JOIN etl.etl_incidents i ON i.pipeline_id = f.pipeline_id AND i.kind = 'stale'
WHERE f.stale <> (i.kind IS NOT NULL)

-- name: note_still
-- Marts that lack something and have moved since they were last looked at.
UPDATE etl.etl_behind b SET at_id = f.at_id, still_since = clock_timestamp()
FROM etl.etl_followers f
WHERE f.pipeline_id = b.pipeline_id AND b.at_id IS DISTINCT FROM f.at_id

-- name: drop_settled
-- Nobody waits for these any more: it is stopped, or follows nothing.
DELETE FROM etl.etl_incidents i USING etl.etl_pipelines p
WHERE p.id = i.pipeline_id AND (i.kind = 'stuck' AND (NOT p.enabled OR p.status IN ('PAUSED', 'FAILED'))
                                OR i.kind IN ('stuck', 'wrong') AND p.mode <> 'live')

-- name: judge_stuck
-- A live mart that nobody works at, though it lacks something: for longer than a pause between two comparisons takes.
-- One that follows on a schedule waits for that.
SELECT etl.open_incident(p, 'stuck', jsonb_build_object('behind', f.backlog, 'since', b.still_since))
FROM etl.etl_behind b
JOIN etl.etl_pipelines p ON p.id = b.pipeline_id
JOIN etl.etl_followers f ON f.pipeline_id = b.pipeline_id AND f.captured
WHERE p.enabled AND p.status = 'IDLE' AND p.schedule_interval IS NULL
  AND b.still_since < clock_timestamp() - make_interval(
      secs => %(grace)s + %(comparisons)s * coalesce(f.compare_seconds, 0))
  AND NOT EXISTS (SELECT FROM etl.etl_incidents i WHERE i.pipeline_id = p.id AND i.kind = 'stuck')

-- name: judge_moving
-- It has moved since it was told of, or has everything.
SELECT etl.close_incident(p, 'stuck')
FROM etl.etl_incidents i JOIN etl.etl_pipelines p ON p.id = i.pipeline_id
WHERE i.kind = 'stuck'
  AND NOT EXISTS (SELECT FROM etl.etl_behind b WHERE b.pipeline_id = i.pipeline_id AND b.still_since < i.since)

-- name: claim
-- The oldest alert that is due, unless an older one of its pipeline is still to come: a receiver gets them in order.
-- Whoever claims it has so many seconds to deliver it. Zero rows: nothing is due, or others took it.
UPDATE etl.etl_alerts a
SET attempts = a.attempts + 1, next_at = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE a.id = (
    SELECT d.id FROM etl.etl_alerts d
    WHERE d.status = 'PENDING' AND d.next_at <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM etl.etl_alerts o
                      WHERE o.pipeline_id = d.pipeline_id AND o.status = 'PENDING' AND o.number < d.number)
    ORDER BY d.number
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING a.id, a.pipeline_id, a.event, a.details, a.created_at, a.attempts,
          extract(epoch FROM clock_timestamp() - a.created_at)::float8 AS age_seconds

-- name: delivered
-- Zero rows: it took too long, and another runner has it now.
UPDATE etl.etl_alerts SET status = 'DELIVERED', finished_at = clock_timestamp(), last_error = NULL
WHERE id = %(id)s AND attempts = %(attempts)s AND status = 'PENDING'

-- name: postpone
-- Zero rows: as above.
UPDATE etl.etl_alerts SET next_at = clock_timestamp() + make_interval(secs => %(seconds)s), last_error = %(error)s
WHERE id = %(id)s AND attempts = %(attempts)s AND status = 'PENDING'

-- name: give_up
-- Zero rows: as above.
UPDATE etl.etl_alerts SET status = 'GIVEN_UP', finished_at = clock_timestamp(), last_error = %(error)s
WHERE id = %(id)s AND attempts = %(attempts)s AND status = 'PENDING'

-- name: incidents
-- What is wrong with these pipelines now.
SELECT pipeline_id, kind, since FROM etl.etl_incidents WHERE pipeline_id = ANY (%(ids)s) ORDER BY kind
