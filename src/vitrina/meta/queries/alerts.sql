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

-- name: judge_away
-- Pipelines that have waited for somebody for so long, and those that need not any more.
WITH waits AS MATERIALIZED (
    SELECT w.pipeline_id, w.neighbour, w.since, w.error, w.remedy
    FROM etl.etl_postponed w JOIN etl.etl_pipelines p ON p.id = w.pipeline_id
    WHERE w.neighbour IS NOT NULL AND p.enabled AND p.status IN ('RUN_REQUESTED', 'RUNNING', 'PAUSE_REQUESTED')
)
SELECT CASE WHEN w.pipeline_id IS NOT NULL
            THEN etl.open_incident(p, 'outage', jsonb_build_object(
                     'neighbour', w.neighbour, 'since', w.since, 'error', w.error, 'remedy', w.remedy))
            ELSE etl.close_incident(p, 'outage') END
FROM etl.etl_pipelines p
LEFT JOIN waits w ON w.pipeline_id = p.id
LEFT JOIN etl.etl_incidents i ON i.pipeline_id = p.id AND i.kind = 'outage'
WHERE (i.kind IS NULL AND w.since < clock_timestamp() - make_interval(secs => %(away)s)
       OR i.kind IS NOT NULL AND w.pipeline_id IS NULL)

-- name: note_still
-- Marts that lack something and have moved since they were last looked at.
UPDATE etl.etl_behind b SET at_id = f.at_id, still_since = clock_timestamp()
FROM etl.etl_followers f
WHERE f.pipeline_id = b.pipeline_id AND b.at_id IS DISTINCT FROM f.at_id

-- name: drop_settled
-- Nobody waits for these any more: it is stopped, or follows nothing, or asks nothing.
DELETE FROM etl.etl_incidents i USING etl.etl_pipelines p
WHERE p.id = i.pipeline_id AND (i.kind = 'stuck' AND (NOT p.enabled OR p.status IN ('PAUSED', 'FAILED'))
                                OR i.kind IN ('stuck', 'wrong') AND p.mode <> 'live'
                                OR i.kind = 'check' AND p.checks = '[]')

-- name: judge_stuck
-- A live mart that nobody works at, though it lacks something: for longer than a pause between two comparisons takes.
-- One that follows on a schedule waits for that.
SELECT etl.open_incident(p, 'stuck', jsonb_build_object('behind', f.backlog, 'since', b.still_since))
FROM etl.etl_behind b
JOIN etl.etl_pipelines p ON p.id = b.pipeline_id
JOIN etl.etl_followers f ON f.pipeline_id = b.pipeline_id AND f.captured
WHERE p.enabled AND p.status IN ('IDLE', 'FOLLOWING') AND p.schedule_interval IS NULL
  AND b.still_since < clock_timestamp() - make_interval(
      secs => %(grace)s + %(comparisons)s * coalesce(f.compare_seconds, 0))
  AND NOT EXISTS (SELECT FROM etl.etl_incidents i WHERE i.pipeline_id = p.id AND i.kind = 'stuck')

-- name: judge_moving
-- It has moved since it was told of, or has everything.
SELECT etl.close_incident(p, 'stuck')
FROM etl.etl_incidents i JOIN etl.etl_pipelines p ON p.id = i.pipeline_id
WHERE i.kind = 'stuck'
  AND NOT EXISTS (SELECT FROM etl.etl_behind b WHERE b.pipeline_id = i.pipeline_id AND b.still_since < i.since)

-- name: note_destination
INSERT INTO etl.etl_destinations AS t (name, format, place, labels, events)
VALUES (%(name)s, %(format)s, %(place)s, %(labels)s, %(events)s)
ON CONFLICT (name) DO UPDATE
SET format = excluded.format, place = excluded.place, labels = excluded.labels, events = excluded.events,
    seen_at = clock_timestamp()

-- name: forget_destinations
-- No runner has had these for a week.
DELETE FROM etl.etl_destinations WHERE seen_at < clock_timestamp() - interval '7 days'

-- name: route
-- Whom the oldest alert that nobody has in hand is to be told: whoever wants it, by the labels that the pipeline had then;
-- a recovery goes to whoever was told of its incident. Zero rows: there is none.
WITH due AS (
    SELECT d.id, d.pipeline_id, d.event, d.details, d.number FROM etl.etl_alerts d
    WHERE d.status = 'PENDING' AND d.next_at <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM etl.etl_alerts o
                      WHERE o.pipeline_id = d.pipeline_id AND o.status = 'PENDING' AND o.number < d.number)
    ORDER BY d.number
    LIMIT 1
    FOR UPDATE SKIP LOCKED
), incident AS (
    SELECT i.id FROM due d CROSS JOIN LATERAL (
        SELECT o.id, o.status FROM etl.etl_alerts o
        WHERE o.pipeline_id = d.pipeline_id AND o.event = d.details ->> 'after' AND o.number < d.number
        ORDER BY o.number DESC LIMIT 1) i
    WHERE d.event = 'recovered'
      AND (i.status = 'UNWANTED' OR EXISTS (SELECT FROM etl.etl_deliveries o WHERE o.alert_id = i.id))
), told AS (
    INSERT INTO etl.etl_deliveries (alert_id, pipeline_id, destination, event, pipeline)
    SELECT d.id, d.pipeline_id, t.name, d.event, d.details ->> 'name'
    FROM due d
    LEFT JOIN etl.etl_pipelines p ON p.id = d.pipeline_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN d.details ? 'labels' THEN array(SELECT jsonb_array_elements_text(d.details -> 'labels'))
                    ELSE coalesce(p.labels, '{}') END AS labels) l
    CROSS JOIN etl.etl_destinations t
    WHERE CASE WHEN EXISTS (SELECT FROM incident)
               THEN EXISTS (SELECT FROM etl.etl_deliveries o JOIN incident i ON i.id = o.alert_id
                            WHERE o.destination = t.name)
               ELSE t.seen_at > clock_timestamp() - interval '5 minutes' AND etl.has_labels(l.labels, t.labels)
                    AND (t.events = '{}' OR coalesce(d.details ->> 'after', d.event) = ANY (t.events)) END
    ORDER BY t.name
    RETURNING id
)
UPDATE etl.etl_alerts a
SET status = CASE WHEN EXISTS (SELECT FROM told) THEN 'ROUTED' ELSE 'UNWANTED' END,
    finished_at = CASE WHEN NOT EXISTS (SELECT FROM told) THEN clock_timestamp() END
FROM due WHERE a.id = due.id
RETURNING a.id

-- name: claim
-- The oldest delivery that is due to one of these, unless an older one of its pipeline is still to come there: each gets
-- them in order. Whoever claims it has so many seconds. Zero rows: nothing is due, or others took it.
UPDATE etl.etl_deliveries d
SET attempts = d.attempts + 1, next_at = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM etl.etl_alerts a
WHERE a.id = d.alert_id AND d.id = (
    SELECT f.id FROM etl.etl_deliveries f
    WHERE f.status = 'PENDING' AND f.next_at <= clock_timestamp() AND f.destination = ANY (%(names)s)
      AND NOT EXISTS (SELECT FROM etl.etl_deliveries o
                      WHERE o.destination = f.destination AND o.pipeline_id = f.pipeline_id AND o.status = 'PENDING'
                        AND o.id < f.id)
    ORDER BY f.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING a.id, a.pipeline_id, a.event, a.details, a.created_at, d.id AS number, d.destination, d.attempts,
          extract(epoch FROM clock_timestamp() - a.created_at)::float8 AS age_seconds

-- name: hold
-- Its alert: who ends two of its deliveries at once does so one after the other, and the last settles it.
SELECT a.id FROM etl.etl_alerts a JOIN etl.etl_deliveries d ON d.alert_id = a.id WHERE d.id = %(number)s FOR UPDATE OF a

-- name: delivered
-- Zero rows: it took too long, and another runner has it now.
UPDATE etl.etl_deliveries
SET status = 'DELIVERED', finished_at = clock_timestamp(), last_error = NULL, answer = %(answer)s, took_ms = %(took_ms)s
WHERE id = %(number)s AND attempts = %(attempts)s AND status = 'PENDING'

-- name: postpone
-- Zero rows: as above.
UPDATE etl.etl_deliveries
SET next_at = clock_timestamp() + make_interval(secs => %(seconds)s), last_error = %(error)s, answer = %(answer)s,
    took_ms = %(took_ms)s
WHERE id = %(number)s AND attempts = %(attempts)s AND status = 'PENDING'

-- name: give_up
-- Zero rows: as above.
UPDATE etl.etl_deliveries
SET status = 'GIVEN_UP', finished_at = clock_timestamp(), last_error = %(error)s,
    answer = coalesce(%(answer)s, answer), took_ms = coalesce(%(took_ms)s, took_ms)
WHERE id = %(number)s AND attempts = %(attempts)s AND status = 'PENDING'

-- name: settle
-- Once no delivery of it is to come. Zero rows: some are.
UPDATE etl.etl_alerts a
SET finished_at = clock_timestamp(),
    status = CASE WHEN EXISTS (SELECT FROM etl.etl_deliveries d WHERE d.alert_id = a.id AND d.status = 'GIVEN_UP')
                  THEN 'GIVEN_UP' ELSE 'DELIVERED' END
WHERE a.id = (SELECT d.alert_id FROM etl.etl_deliveries d WHERE d.id = %(number)s) AND a.status = 'ROUTED'
  AND NOT EXISTS (SELECT FROM etl.etl_deliveries d WHERE d.alert_id = a.id AND d.status = 'PENDING')

-- name: orphaned
-- Deliveries of a day ago to whom no runner that lives can tell anything.
SELECT d.id AS number, d.attempts FROM etl.etl_deliveries d
WHERE d.status = 'PENDING' AND d.next_at <= clock_timestamp() AND d.created_at < clock_timestamp() - interval '1 day'
  AND NOT EXISTS (SELECT FROM etl.etl_destinations t
                  WHERE t.name = d.destination AND t.seen_at > clock_timestamp() - interval '5 minutes')
LIMIT 100

-- name: tested
INSERT INTO etl.etl_deliveries (destination, event, status, attempts, finished_at, last_error, answer, took_ms)
VALUES (%(destination)s, 'test', %(status)s, 1, clock_timestamp(), %(error)s, %(answer)s, %(took_ms)s)

-- name: destinations
-- All that runners have named lately, with how their last delivery went and how many are to come.
SELECT t.name, t.format, t.place, t.labels, t.events, t.seen_at,
       t.seen_at > clock_timestamp() - interval '5 minutes' AS known, l.status AS last_status, l.last_error,
       coalesce(l.finished_at, l.created_at) AS last_at, w.waiting
FROM etl.etl_destinations t
LEFT JOIN LATERAL (SELECT * FROM etl.etl_deliveries d WHERE d.destination = t.name AND d.attempts > 0
                   ORDER BY d.id DESC LIMIT 1) l ON true
CROSS JOIN LATERAL (SELECT count(*) AS waiting FROM etl.etl_deliveries d
                    WHERE d.destination = t.name AND d.status = 'PENDING') w
ORDER BY t.name

-- name: deliveries
-- Newest first, a page at a time; to one destination, if one is named.
SELECT d.id, d.destination, d.event, d.alert_id, d.pipeline_id, d.pipeline, d.created_at, d.status, d.attempts,
       CASE WHEN d.status = 'PENDING' THEN d.next_at END AS next_at, d.last_error, d.answer, d.took_ms, d.finished_at,
       p.id IS NOT NULL AS pipeline_is_there
FROM etl.etl_deliveries d LEFT JOIN etl.etl_pipelines p ON p.id = d.pipeline_id
WHERE (%(destination)s::text IS NULL OR d.destination = %(destination)s)
  AND (%(before)s::bigint IS NULL OR d.id < %(before)s)
ORDER BY d.id DESC LIMIT %(limit)s

-- name: incidents
-- What is wrong with these pipelines now.
SELECT pipeline_id, kind, since FROM etl.etl_incidents WHERE pipeline_id = ANY (%(ids)s) ORDER BY kind
