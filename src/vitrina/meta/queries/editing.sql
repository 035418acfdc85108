-- name: lock
-- The row as it stands, held until the end of the transaction: no claim and no other edit comes between. Rows that name it
-- may: a target that takes what was read for all.
SELECT p.id, p.name, etl.status_of(p) AS status, p.enabled, p.version, p.due_at, p.effective_target, p.part_of,
       etl.members_of(p) AS members, etl.pipeline_config(p) AS config
FROM etl.etl_pipelines p
WHERE p.id::text = lower(%(which)s) OR p.name = %(which)s
ORDER BY p.id::text = lower(%(which)s) DESC
FOR NO KEY UPDATE OF p

-- name: drop_tasks
DELETE FROM etl.etl_pipeline_tasks WHERE pipeline_id = %(id)s

-- name: delete
-- Zero rows: it is running, or a target of it is, or it is gone.
DELETE FROM etl.etl_pipelines p
WHERE p.id = %(id)s AND p.status NOT IN ('RUNNING', 'PAUSE_REQUESTED')
  AND NOT EXISTS (SELECT FROM etl.etl_pipelines m WHERE m.part_of = p.id AND m.status IN ('RUNNING', 'PAUSE_REQUESTED'))
RETURNING p.id

-- name: set_enabled
UPDATE etl.etl_pipelines SET enabled = %(enabled)s WHERE id = %(id)s AND enabled <> %(enabled)s RETURNING id

-- name: reload
-- The running run takes the present version at its next batch. Zero rows: it is not running.
UPDATE etl.etl_pipelines SET reload_version = version
WHERE id = %(id)s AND status IN ('RUNNING', 'PAUSE_REQUESTED')
RETURNING version

-- name: page
-- One page by name. Keyset: what comes after the last name seen, however many rows were added meanwhile.
SELECT p.id, p.name, etl.status_of(p) AS status, p.enabled, p.version, p.due_at, p.effective_target, p.part_of,
       etl.members_of(p) AS members, etl.pipeline_config(p) AS config
FROM etl.etl_pipelines p
WHERE (%(status)s::text IS NULL OR etl.status_of(p) = %(status)s)
  AND (%(enabled)s::boolean IS NULL OR p.enabled = %(enabled)s)
  AND (%(name)s::text IS NULL OR strpos(lower(p.name), lower(%(name)s)) > 0)
  AND etl.has_labels(p.labels, %(labels)s::text[])
  AND (%(after)s::text IS NULL OR p.name > %(after)s)
ORDER BY p.name
LIMIT %(limit)s

-- name: labelled
SELECT p.id, p.name FROM etl.etl_pipelines p WHERE etl.has_labels(p.labels, %(labels)s::text[]) AND p.part_of IS NULL ORDER BY p.name

-- name: audit
INSERT INTO etl.etl_audit (actor, action, pipeline_id, details)
VALUES (%(actor)s, %(action)s, %(pipeline_id)s, %(details)s)

-- name: forget
-- Keys are for retries: after a day a key is as good as new.
DELETE FROM etl.etl_idempotency WHERE created_at < now() - interval '1 day'

-- name: remember
-- An Idempotency-Key: zero rows mean that it was used before.
INSERT INTO etl.etl_idempotency (key, pipeline_id, answer) VALUES (%(key)s, %(pipeline_id)s, %(answer)s)
ON CONFLICT DO NOTHING
RETURNING key

-- name: remembered
SELECT pipeline_id, answer FROM etl.etl_idempotency WHERE key = %(key)s

-- name: versions
SELECT version, config, changed_at, changed_by FROM etl.etl_config_versions
WHERE pipeline_id = %(id)s ORDER BY version DESC LIMIT %(limit)s

-- name: version
SELECT version, config, changed_at, changed_by FROM etl.etl_config_versions WHERE pipeline_id = %(id)s AND version = %(version)s

-- name: holders
-- Who has this name, or writes to one of these targets; other than one of them, and its own targets.
SELECT name, effective_target AS target FROM etl.etl_pipelines
WHERE (name = %(name)s OR effective_target = ANY (%(targets)s::text[])) AND id IS DISTINCT FROM %(but)s
  AND (part_of IS NULL OR part_of IS DISTINCT FROM %(but)s)

-- name: audit_refusal
-- Zero rows: there have been enough of them within a minute; whoever floods us shall not fill the table.
INSERT INTO etl.etl_audit (actor, action, details)
SELECT 'nobody', %(action)s::text, %(details)s
WHERE (SELECT count(*) FROM etl.etl_audit a WHERE a.at > now() - interval '1 minute' AND a.actor = 'nobody') < 30
