-- name: standing
-- How each check stood when it was asked last, in the order of the names.
SELECT c.pipeline_id, c.name, c.kind, c.effect, c.definition, c.outcome, c.rows, c.keys, c.error, c.since, c.asked_at,
       (SELECT r.id FROM etl.etl_runs r WHERE r.id = c.run_id) AS run_id
FROM etl.etl_checks c JOIN etl.etl_pipelines p ON p.id = c.pipeline_id
WHERE c.pipeline_id = ANY (%(ids)s) AND p.checks @> jsonb_build_array(jsonb_build_object('name', c.name))
ORDER BY c.name

-- name: of_run
SELECT name, kind, effect, outcome, rows, keys, error, at FROM etl.etl_run_checks WHERE run_id = %(run_id)s ORDER BY name

-- name: not_kept
-- Of each of these runs.
SELECT run_id, name, kind, effect, outcome, rows, keys, error FROM etl.etl_run_checks
WHERE run_id = ANY (%(ids)s) AND outcome <> 'kept' ORDER BY run_id, name

-- name: keep
-- The worst of a run, and the rows of all its batches; a look at all of the mart counts none twice. Zero rows: there is
-- no such run.
INSERT INTO etl.etl_run_checks AS c (run_id, name, kind, effect, outcome, rows, keys, error)
SELECT r.id, %(name)s, %(kind)s, %(effect)s, %(outcome)s, %(rows)s, %(keys)s, %(error)s
FROM etl.etl_runs r WHERE r.id = %(run_id)s
ON CONFLICT (run_id, name) DO UPDATE
SET outcome = CASE WHEN array_position(ARRAY['kept', 'broken', 'unasked', 'blocked'], EXCLUDED.outcome)
                        >= array_position(ARRAY['kept', 'broken', 'unasked', 'blocked'], c.outcome)
                   THEN EXCLUDED.outcome ELSE c.outcome END,
    rows = CASE WHEN %(of_all)s THEN greatest(c.rows, EXCLUDED.rows) ELSE c.rows + EXCLUDED.rows END,
    keys = CASE WHEN c.keys = '[]' THEN EXCLUDED.keys ELSE c.keys END,
    error = coalesce(EXCLUDED.error, c.error), at = EXCLUDED.at

-- name: stand
INSERT INTO etl.etl_checks AS c (pipeline_id, name, kind, effect, definition, outcome, rows, keys, error, run_id)
VALUES (%(pipeline_id)s, %(name)s, %(kind)s, %(effect)s, %(definition)s, %(outcome)s, %(rows)s, %(keys)s, %(error)s,
        nullif(%(run_id)s::bigint, 0))
ON CONFLICT (pipeline_id, name) DO UPDATE
SET kind = EXCLUDED.kind, effect = EXCLUDED.effect, definition = EXCLUDED.definition, outcome = EXCLUDED.outcome,
    rows = EXCLUDED.rows, keys = EXCLUDED.keys, error = EXCLUDED.error, run_id = EXCLUDED.run_id,
    since = CASE WHEN c.outcome = EXCLUDED.outcome AND c.definition = EXCLUDED.definition THEN c.since
                 ELSE EXCLUDED.since END,
    asked_at = EXCLUDED.asked_at

-- name: judge
-- Opened once, closed when all are kept. What was blocked is not in the mart: its run has failed, and that is told.
WITH open AS (SELECT count(*) FILTER (WHERE c.outcome IN ('broken', 'unasked')) AS broken,
                     jsonb_agg(jsonb_build_object('check', c.name, 'rows', c.rows, 'keys', c.keys, 'error', c.error)
                               ORDER BY c.name) FILTER (WHERE c.outcome IN ('broken', 'unasked')) AS checks
              FROM etl.etl_checks c JOIN etl.etl_pipelines p ON p.id = c.pipeline_id
              WHERE c.pipeline_id = %(pipeline_id)s AND p.checks @> jsonb_build_array(jsonb_build_object('name', c.name)))
SELECT CASE WHEN open.broken > 0 THEN etl.open_incident(p, 'check', jsonb_build_object('checks', open.checks))
            ELSE etl.close_incident(p, 'check') END
FROM etl.etl_pipelines p, open
WHERE p.id = %(pipeline_id)s
  AND (open.broken > 0) <> EXISTS (SELECT FROM etl.etl_incidents i WHERE i.pipeline_id = p.id AND i.kind = 'check')

-- name: move
-- To the run of the hour, with the rest of a burst.
UPDATE etl.etl_run_checks c SET run_id = %(hour_id)s
WHERE c.run_id = %(run_id)s
  AND NOT EXISTS (SELECT FROM etl.etl_run_checks h WHERE h.run_id = %(hour_id)s AND h.name = c.name)
