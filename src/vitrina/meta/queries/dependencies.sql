-- name: find
-- Zero rows: it went live under a program that did not keep them, or never has.
SELECT needs, facts, digest, changed FROM etl.etl_dependencies WHERE pipeline_id = %(pipeline_id)s

-- name: keep
-- In the transaction of a checkpoint that says the same digest.
INSERT INTO etl.etl_dependencies (pipeline_id, needs, facts, digest)
VALUES (%(pipeline_id)s, %(needs)s, %(facts)s, %(digest)s)
ON CONFLICT (pipeline_id) DO UPDATE
SET needs = EXCLUDED.needs, facts = EXCLUDED.facts, digest = EXCLUDED.digest, changed = NULL,
    kept_at = clock_timestamp()

-- name: turns
-- The captured sources with live marts at which nobody has looked for so long; whoever gets one looks. Zero rows: none.
INSERT INTO etl.etl_dependency_looks AS l (source, looked_at)
SELECT c.source, clock_timestamp() FROM etl.etl_captures c
WHERE c.installed_at IS NOT NULL
  AND EXISTS (SELECT FROM etl.etl_pipelines p WHERE p.source = c.source AND p.mode = 'live' AND p.enabled)
  AND NOT EXISTS (SELECT FROM etl.etl_dependency_looks k
                  WHERE k.source = c.source AND k.looked_at > clock_timestamp() - make_interval(secs => %(seconds)s))
ON CONFLICT (source) DO UPDATE SET looked_at = EXCLUDED.looked_at
WHERE l.looked_at <= clock_timestamp() - make_interval(secs => %(seconds)s)
RETURNING source

-- name: kept
-- What the live marts of a source depend on; needs NULL: an older program left it. Those that are stopped are compared
-- with it when they go on.
SELECT p.id, p.name, p.effective_target AS target, d.needs, d.digest, d.changed,
       CASE WHEN p.status IN ('IDLE', 'FOLLOWING') THEN f.checkpoint END AS checkpoint   -- as it was left
FROM etl.etl_followers f JOIN etl.etl_pipelines p ON p.id = f.pipeline_id
LEFT JOIN etl.etl_dependencies d ON d.pipeline_id = p.id
WHERE f.source = %(source)s AND f.at_id IS NOT NULL AND p.enabled AND p.status NOT IN ('PAUSED', 'FAILED')

-- name: suspect
-- Something is otherwise, or no longer; zero rows: another digest has been kept meanwhile.
UPDATE etl.etl_dependencies SET changed = %(changed)s
WHERE pipeline_id = %(pipeline_id)s AND digest = %(digest)s AND changed IS DISTINCT FROM %(changed)s
RETURNING pipeline_id

-- name: wake
-- Due at once, also if it is followed; one on a schedule is judged when it is due. Zero rows: it is run, or due anyway.
UPDATE etl.etl_pipelines SET status = 'IDLE', due_at = clock_timestamp()
WHERE id = %(pipeline_id)s AND mode = 'live' AND enabled AND status IN ('IDLE', 'FOLLOWING') AND due_at IS NULL
  AND schedule_interval IS NULL
RETURNING id
