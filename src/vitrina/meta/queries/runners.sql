-- name: seen
INSERT INTO etl.etl_runners (id, name, version, slots, busy, neighbours)
VALUES (%(id)s, %(name)s, %(version)s, %(slots)s, %(busy)s, %(neighbours)s)
ON CONFLICT (id) DO UPDATE SET seen_at = now(), busy = excluded.busy, neighbours = excluded.neighbours

-- name: gone
DELETE FROM etl.etl_runners WHERE id = %(id)s

-- name: orphaned_stages
-- Scratch tables whose pipeline, and of several targets each of them, no longer exists or is held by nobody, and which
-- serve no request that is alive.
SELECT c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'etl_stage'
WHERE c.relkind = 'r' AND NOT EXISTS (
    SELECT FROM etl.etl_leases l WHERE l.owner IS NOT NULL AND replace(l.pipeline_id::text, '-', '') = right(c.relname, 32))
  AND NOT EXISTS (
    SELECT FROM etl.etl_requests r
    WHERE r.status = 'RUNNING' AND r.expires_at > clock_timestamp()
      AND replace(r.id::text, '-', '') = right(c.relname, 32))
  AND NOT EXISTS (
    SELECT FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
    WHERE l.owner IS NOT NULL AND replace(p.part_of::text, '-', '') = right(c.relname, 32))

-- name: holder_of_stage
-- Locks the lease, or the request; zero rows: nobody holds it, or the pipeline or the request is gone.
WITH lease AS (
    SELECT l.owner FROM etl.etl_leases l
    WHERE l.pipeline_id = right(%(name)s, 32)::uuid FOR UPDATE
), request AS (
    SELECT r.owner, r.expires_at > clock_timestamp() AS alive FROM etl.etl_requests r
    WHERE r.id = right(%(name)s, 32)::uuid FOR UPDATE
), targets AS (
    SELECT l.owner FROM etl.etl_leases l JOIN etl.etl_pipelines p ON p.id = l.pipeline_id
    WHERE p.part_of = right(%(name)s, 32)::uuid FOR UPDATE OF l
)
SELECT owner FROM lease WHERE owner IS NOT NULL UNION ALL SELECT owner FROM request WHERE alive
UNION ALL SELECT owner FROM targets WHERE owner IS NOT NULL

-- name: any
-- Does the meta-store answer?
SELECT EXISTS (SELECT FROM etl.etl_runners) AS yes

-- name: heard
-- Has a runner of this host beaten lately?
SELECT EXISTS (
    SELECT FROM etl.etl_runners
    WHERE split_part(name, ':', 1) = %(host)s AND seen_at > now() - make_interval(secs => %(seconds)s)) AS yes

-- name: known
-- Has this very process beaten at all?
SELECT EXISTS (SELECT FROM etl.etl_runners WHERE name = %(name)s) AS yes

-- name: list
SELECT id, name, version, slots, busy, started_at, seen_at, neighbours,
       seen_at > now() - make_interval(secs => %(seconds)s) AS alive
FROM etl.etl_runners ORDER BY name, started_at

-- name: tell_sinks
-- How the places that marts live in answer this runner.
UPDATE etl.etl_runners SET sinks = %(sinks)s WHERE id = %(id)s

-- name: sinks
-- As the runner that looked last tells it.
SELECT sinks FROM etl.etl_runners
WHERE seen_at > now() - make_interval(secs => %(seconds)s) ORDER BY seen_at DESC LIMIT 1
