-- name: live
-- How live pipelines stand to the log of their source; what is of a capture is NULL where there is none. `concerned`:
-- a change of one of their tables is in the log, and the mart has not got it yet.
SELECT p.id, p.source, p.enabled AND p.status NOT IN ('PAUSED', 'FAILED') AS works, s.checkpoint -> 'live' AS position,
       d.changed, c.slot, c.generation, c.generation_reason, c.last_id, c.log_start, c.caught_up_at,
       EXISTS (SELECT FROM jsonb_array_elements_text(s.checkpoint #> '{live,tables}') AS t (relation)
               WHERE (c.recent ->> t.relation)::bigint > (s.checkpoint #>> '{live,id}')::bigint) AS concerned
FROM etl.etl_pipelines p
JOIN etl.etl_state s ON s.pipeline_id = p.id
LEFT JOIN etl.etl_dependencies d ON d.pipeline_id = p.id
LEFT JOIN etl.etl_captures c ON c.source = p.source AND c.installed_at IS NOT NULL
WHERE p.mode = 'live' AND p.id = ANY (%(ids)s)
