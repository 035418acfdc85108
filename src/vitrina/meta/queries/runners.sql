-- name: seen
INSERT INTO etl.etl_runners (id, name, version, slots, busy)
VALUES (%(id)s, %(name)s, %(version)s, %(slots)s, %(busy)s)
ON CONFLICT (id) DO UPDATE SET seen_at = now(), busy = excluded.busy

-- name: gone
DELETE FROM etl.etl_runners WHERE id = %(id)s OR seen_at < now() - interval '1 day'

-- name: orphaned_stages
-- Scratch tables whose pipeline no longer exists or is held by nobody.
SELECT c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'etl_stage'
WHERE c.relkind = 'r' AND NOT EXISTS (
    SELECT FROM etl.etl_leases l WHERE l.owner IS NOT NULL AND replace(l.pipeline_id::text, '-', '') = right(c.relname, 32))
