-- Marts over marts: who writes what a pipeline reads, and who is due after whom.

-- name: above
-- The pipelines that write any of these relations, those whose marts they read, and so on; each once.
WITH RECURSIVE found (id) AS (
    SELECT p.id FROM etl.etl_pipelines p WHERE p.effective_target = ANY (%(relations)s::text[])
    UNION
    SELECT u.upstream_id FROM found f JOIN etl.etl_upstream u ON u.pipeline_id = f.id
)
SELECT p.id, p.name, p.effective_target AS mart, p.mode, coalesce(r.relations, '{}') AS reads,
       EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE concat(n.nspname, '.', c.relname) = p.effective_target) AS is_there
FROM found f JOIN etl.etl_pipelines p ON p.id = f.id LEFT JOIN etl.etl_reads r ON r.pipeline_id = p.id
ORDER BY p.name

-- name: kept
-- What was kept of a pipeline. Zero rows: nothing yet.
SELECT relations AS reads, version FROM etl.etl_reads WHERE pipeline_id = %(pipeline_id)s

-- name: keep
-- Zero rows: the pipeline is gone.
INSERT INTO etl.etl_reads (pipeline_id, relations, version)
SELECT p.id, %(reads)s, coalesce(%(version)s, p.version) FROM etl.etl_pipelines p WHERE p.id = %(pipeline_id)s
ON CONFLICT (pipeline_id) DO UPDATE SET relations = excluded.relations, version = excluded.version

-- name: settle_version
-- The version that an edit of this transaction makes.
SET CONSTRAINTS etl.pipeline_versions IMMEDIATE

-- name: unknown
-- Pipelines that are to be due after others, and of which nobody has kept yet what they read: written in SQL, as a rule.
SELECT p.id, p.name, p.version, etl.pipeline_config(p) AS config
FROM etl.etl_pipelines p LEFT JOIN etl.etl_reads r ON r.pipeline_id = p.id
WHERE p.after = 'upstream' AND p.enabled AND p.mode <> 'live' AND p.targets = '{}'
  AND r.version IS DISTINCT FROM p.version
ORDER BY p.name

-- name: wake_downstream
-- Pipelines that are due after others: somebody whose mart they read has succeeded since their own last run began, and
-- nobody on the way to them is under way, due, or about to be so by the same rule; so of two ways that part and meet
-- again both are waited for. Live pipelines are waited for by nobody: they follow on. One that somebody keeps locked is
-- woken later.
WITH RECURSIVE ready AS (
    SELECT p.id FROM etl.etl_pipelines p
    LEFT JOIN LATERAL (SELECT r.tried_at FROM etl.etl_runs r WHERE r.pipeline_id = p.id
                       ORDER BY r.id DESC LIMIT 1) own ON true
    WHERE p.after = 'upstream' AND p.enabled AND p.mode <> 'live' AND p.status = 'IDLE' AND p.targets = '{}'
      AND coalesce(p.due_at > clock_timestamp(), true)
      AND EXISTS (SELECT FROM etl.etl_upstream u CROSS JOIN LATERAL (
                      SELECT r.finished_at FROM etl.etl_runs r WHERE r.pipeline_id = u.upstream_id AND r.status = 'SUCCESS'
                      ORDER BY r.id DESC LIMIT 1) good
                  WHERE u.pipeline_id = p.id AND good.finished_at > coalesce(own.tried_at, '-infinity'))
), above (id, upstream_id) AS (
    SELECT r.id, u.upstream_id FROM ready r JOIN etl.etl_upstream u ON u.pipeline_id = r.id
    UNION
    SELECT a.id, u.upstream_id
    FROM above a JOIN etl.etl_pipelines p ON p.id = a.upstream_id
    JOIN etl.etl_upstream u ON u.pipeline_id = p.id
    WHERE p.after = 'upstream' AND p.enabled AND p.mode <> 'live' AND p.status = 'IDLE'
), due AS (
    SELECT p.id FROM etl.etl_pipelines p JOIN ready ON ready.id = p.id
    WHERE p.status = 'IDLE' AND p.enabled AND NOT EXISTS (
        SELECT FROM above a JOIN etl.etl_pipelines o ON o.id = a.upstream_id
        WHERE a.id = p.id AND o.id <> p.id AND o.enabled AND o.mode <> 'live'
          AND (o.status IN ('RUN_REQUESTED', 'RUNNING', 'PAUSE_REQUESTED')
               OR o.status = 'IDLE' AND (o.due_at <= clock_timestamp() OR o.id IN (SELECT id FROM ready))))
    FOR UPDATE OF p SKIP LOCKED
)
UPDATE etl.etl_pipelines p SET due_at = clock_timestamp() FROM due WHERE p.id = due.id
