-- name: find
-- How the audit of a mart stands, and how many marts share the time for audits; before the first time, from `seconds`.
SELECT coalesce(a.key_types, '') AS key_types, a.bound, coalesce(a.size, 1000) AS size, coalesce(a.rate, 0) AS rate,
       coalesce(extract(epoch FROM a.next_at - clock_timestamp()), %(seconds)s)::float8 AS wait,
       a.next_at IS NOT NULL AS runs,
       (SELECT count(*) FROM etl.etl_pipelines o WHERE o.mode = 'live' AND o.enabled AND o.targets = '{}') AS marts
FROM etl.etl_pipelines p LEFT JOIN etl.etl_mart_audits a ON a.pipeline_id = p.id WHERE p.id = %(pipeline_id)s

-- name: begin
-- The first time: later, since a mart that goes live has just been compared. What is there stays as it is.
INSERT INTO etl.etl_mart_audits (pipeline_id, next_at)
VALUES (%(pipeline_id)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (pipeline_id) DO UPDATE SET next_at = EXCLUDED.next_at WHERE etl_mart_audits.next_at IS NULL

-- name: switch_off
UPDATE etl.etl_mart_audits SET next_at = NULL WHERE pipeline_id = %(pipeline_id)s

-- name: start_lap
-- From the first key on.
UPDATE etl.etl_mart_audits
SET key_types = %(key_types)s, bound = NULL, lap_since = clock_timestamp(), lap_rows = 0, lap_of = %(of)s, lap_wrong = 0
WHERE pipeline_id = %(pipeline_id)s

-- name: read
-- A range was read; `bound` NULL: it was the last of its lap.
UPDATE etl.etl_mart_audits
SET bound = %(bound)s, size = %(size)s, rate = %(rate)s, rows = rows + %(rows)s, lap_rows = lap_rows + %(rows)s,
    whole_since = CASE WHEN %(bound)s::text[] IS NULL THEN lap_since ELSE whole_since END,
    whole_wrong = CASE WHEN %(bound)s::text[] IS NULL THEN lap_wrong ELSE whole_wrong END,
    lap_wrong = CASE WHEN %(bound)s::text[] IS NULL THEN 0 ELSE lap_wrong END
WHERE pipeline_id = %(pipeline_id)s

-- name: spend
-- So much time was spent; the next range is read after a pause.
UPDATE etl.etl_mart_audits
SET seconds = seconds + %(seconds)s, next_at = clock_timestamp() + make_interval(secs => %(pause)s)
WHERE pipeline_id = %(pipeline_id)s

-- name: found
UPDATE etl.etl_mart_audits SET wrong = wrong + %(wrong)s, lap_wrong = lap_wrong + %(wrong)s
WHERE pipeline_id = %(pipeline_id)s

-- name: tell_wrong
SELECT etl.open_incident(p, 'wrong', jsonb_build_object('rows', %(wrong)s::bigint, 'keys', %(keys)s::jsonb))
FROM etl.etl_pipelines p WHERE p.id = %(pipeline_id)s

-- name: tell_right
-- Every key has been read again since something was wrong, and nothing was.
SELECT etl.close_incident(p, 'wrong') FROM etl.etl_pipelines p JOIN etl.etl_incidents i ON i.pipeline_id = p.id
JOIN etl.etl_mart_audits a ON a.pipeline_id = p.id
WHERE p.id = %(pipeline_id)s AND i.kind = 'wrong' AND a.whole_wrong = 0 AND i.since < a.whole_since

-- name: shown
-- For people: of each mart, the share that was read, since when, and how much was wrong since.
SELECT a.pipeline_id, a.next_at IS NOT NULL AS runs, coalesce(a.whole_since, a.lap_since) AS since,
       CASE WHEN a.whole_since IS NOT NULL THEN 1.0
            ELSE least(a.lap_rows / greatest(a.lap_of, a.lap_rows, 1)::float8, 0.99) END AS share,
       a.whole_wrong + a.lap_wrong AS wrong, a.rows, a.wrong AS wrong_ever, a.seconds, a.next_at
FROM etl.etl_mart_audits a WHERE a.pipeline_id = ANY (%(ids)s)
