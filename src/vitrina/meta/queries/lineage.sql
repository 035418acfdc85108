-- name: columns
SELECT n.nspname AS schema, c.relname AS "table", a.attname AS "column"
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname || '.' || c.relname = ANY (%(tables)s)
ORDER BY c.oid, a.attnum

-- name: flows
-- How old every mart is in seconds, and the marts of others that are read for it, as the server resolved them last.
SELECT p.id, CASE WHEN f.fresh_at IS NOT NULL
            THEN greatest(extract(epoch FROM clock_timestamp() - f.fresh_at)::float8, 0) END AS age,
       array(SELECT u.effective_target FROM etl.etl_upstream e JOIN etl.etl_pipelines u ON u.id = e.upstream_id
             WHERE e.pipeline_id = p.id ORDER BY 1) AS marts
FROM etl.etl_pipelines p JOIN etl.etl_freshness f ON f.pipeline_id = p.id
