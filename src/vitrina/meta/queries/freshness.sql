-- name: live
-- How live pipelines stand to the log of their source, and what they depend on that is otherwise now.
SELECT f.pipeline_id AS id, f.source, f.enabled AND f.status NOT IN ('PAUSED', 'FAILED') AS works, f.checkpoint,
       f.reason, f.detail, f.backlog, f.concerned, f.caught_up_at, d.changed,
       clock_timestamp() AS now
FROM etl.etl_followers f LEFT JOIN etl.etl_dependencies d ON d.pipeline_id = f.pipeline_id
WHERE f.pipeline_id = ANY (%(ids)s)
