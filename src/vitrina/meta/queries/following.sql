-- Live marts that are followed: who has them, and how they go on. A lease without a run is a follower's.

-- name: free
-- Followed marts that nobody has, or whose holder has gone silent, or that are this process's own and it lost hold of;
-- `waiting`: there is something to do. Those that some runner died of come last.
SELECT p.id, p.name, p.source, coalesce(p.effective_target, '') AS target, l.owner, l.runner, l.crashes,
       CASE WHEN l.owner IS NULL OR l.owner = %(owner)s THEN 0 ELSE 1 END AS lost
FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
WHERE p.status = 'FOLLOWING' AND p.enabled AND p.id <> ALL (%(held)s::uuid[])
  AND (l.owner IS NULL OR l.owner = %(owner)s OR l.expires_at <= clock_timestamp())
ORDER BY l.crashes, p.name

-- name: waiting
-- Of these, those with something to do.
SELECT f.pipeline_id AS id FROM etl.etl_followers f
WHERE f.pipeline_id = ANY (%(ids)s) AND f.captured AND coalesce(f.not_before <= clock_timestamp(), true)
  AND (f.reason IS NOT NULL OR f.concerned
       OR EXISTS (SELECT FROM etl.etl_mart_audits a WHERE a.pipeline_id = f.pipeline_id AND a.next_at <= clock_timestamp()))

-- name: share
-- How many marts are followed, and how many runners share them.
SELECT (SELECT count(*) FROM etl.etl_pipelines p WHERE p.status = 'FOLLOWING' AND p.enabled) AS marts,
       (SELECT count(*) FROM etl.etl_runners r WHERE r.seen_at > now() - make_interval(secs => %(seconds)s)) AS runners

-- name: take
-- Begin to follow, with the next epoch; whoever had it before and went silent has crashed once more. Zero rows: it was
-- asked for something else, or another runner was first.
WITH free AS (
    SELECT p.id, p.name, p.effective_target, p.version,
           coalesce(l.owner <> %(owner)s, false)::integer AS crashed
    FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
    WHERE p.id = %(pipeline_id)s AND p.status = 'FOLLOWING' AND p.enabled
      AND (l.owner IS NULL OR l.owner = %(owner)s OR l.expires_at <= clock_timestamp())
    FOR UPDATE OF p, l SKIP LOCKED
), held AS (
    UPDATE etl.etl_leases l
    SET owner = %(owner)s, runner = %(runner)s, run_id = NULL, crashes = l.crashes + free.crashed,
        expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM free WHERE l.pipeline_id = free.id
    RETURNING l.pipeline_id, l.crashes
), fenced AS (
    UPDATE etl.etl_state s SET epoch = s.epoch + 1 FROM held WHERE s.pipeline_id = held.pipeline_id
    RETURNING s.pipeline_id, s.epoch, s.seq, s.checkpoint, s.config_hash, s.columns
)
SELECT free.id AS pipeline_id, free.name, coalesce(free.effective_target, '') AS target, free.version, held.crashes,
       fenced.epoch, fenced.seq, fenced.checkpoint, fenced.config_hash, fenced.columns
FROM fenced JOIN held USING (pipeline_id) JOIN free ON free.id = fenced.pipeline_id

-- name: mine
-- Those of ours that are ours still.
SELECT l.pipeline_id FROM etl.etl_leases l
WHERE l.owner = %(owner)s AND l.run_id IS NULL AND l.pipeline_id = ANY (%(held)s)

-- name: renew
-- The heartbeat, as of runs.
WITH mine AS (
    SELECT l.pipeline_id FROM etl.etl_leases l
    WHERE l.owner = %(owner)s AND l.run_id IS NULL AND l.pipeline_id = ANY (%(held)s) AND l.expires_at > clock_timestamp()
), free AS (
    SELECT l.pipeline_id FROM etl.etl_leases l JOIN mine USING (pipeline_id)
    WHERE l.owner = %(owner)s AND l.expires_at > clock_timestamp()
    FOR UPDATE OF l SKIP LOCKED
), renewed AS (
    UPDATE etl.etl_leases l SET expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM free WHERE l.pipeline_id = free.pipeline_id
)
SELECT pipeline_id FROM mine

-- name: prove
-- What the last runner died of is behind it. Zero rows: nothing was, or the lease is lost.
UPDATE etl.etl_leases SET crashes = 0
WHERE pipeline_id = %(pipeline_id)s AND owner = %(owner)s AND run_id IS NULL AND crashes > 0

-- name: let_go
-- This runner ends; another goes on at once. Zero rows: it is another's already, or no longer followed.
UPDATE etl.etl_leases SET owner = NULL, expires_at = NULL, runner = NULL
WHERE pipeline_id = %(pipeline_id)s AND owner = %(owner)s AND run_id IS NULL
RETURNING pipeline_id

-- name: step_down
-- A run is due at once. The assignment ends with it. Zero rows: the lease is lost.
UPDATE etl.etl_pipelines p SET status = 'IDLE', due_at = clock_timestamp()
FROM (SELECT l.pipeline_id FROM etl.etl_pipelines q JOIN etl.etl_leases l ON l.pipeline_id = q.id
      WHERE q.id = %(pipeline_id)s AND q.status = 'FOLLOWING' AND l.owner = %(owner)s AND l.run_id IS NULL
      FOR UPDATE OF q, l) AS held
WHERE p.id = held.pipeline_id
RETURNING p.id

-- name: bury
-- It has killed its runner too often; the history says so. Zero rows: it renewed, or was moved meanwhile.
WITH dead AS (
    SELECT p.id, p.version, coalesce(l.runner, '') AS runner FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id
    WHERE p.id = %(pipeline_id)s AND p.status = 'FOLLOWING'
      AND l.owner = %(owner_before)s AND l.expires_at <= clock_timestamp()
    FOR UPDATE OF p, l SKIP LOCKED
), told AS (
    INSERT INTO etl.etl_runs (pipeline_id, status, config_version, runner, finished_at, error)
    SELECT dead.id, 'FAILED', dead.version, dead.runner, clock_timestamp(), %(reason)s FROM dead
    RETURNING pipeline_id
)
UPDATE etl.etl_pipelines p SET status = 'FAILED' FROM told WHERE p.id = told.pipeline_id
RETURNING p.id

-- name: pass
-- Nothing up to there concerns these marts: all of them are moved at once, so that the log can be trimmed. Who is not in
-- the answer was written or taken meanwhile.
UPDATE etl.etl_state s
SET seq = s.seq + 1, checkpoint = jsonb_set(s.checkpoint, '{live,id}', to_jsonb(m.at_id)), updated_at = clock_timestamp()
FROM (SELECT t.id, t.epoch, t.seq, t.at_id
      FROM unnest(%(ids)s::uuid[], %(epochs)s::bigint[], %(seqs)s::bigint[], %(at_ids)s::bigint[]) AS t (id, epoch, seq, at_id)) AS m
WHERE s.pipeline_id = m.id AND s.epoch = m.epoch AND s.seq = m.seq
RETURNING s.pipeline_id

-- name: add_to_hour
-- What was followed is added to the history's row of its hour. Zero rows: there is none yet, or the lease is lost.
WITH held AS (
    SELECT l.pipeline_id FROM etl.etl_leases l
    WHERE l.pipeline_id = %(pipeline_id)s AND l.owner = %(owner)s AND l.run_id IS NULL
    FOR UPDATE
)
UPDATE etl.etl_runs r
SET finished_at = clock_timestamp(), rows_read = r.rows_read + %(read)s, rows_written = r.rows_written + %(written)s,
    rows_deleted = r.rows_deleted + %(deleted)s, rows_unchanged = r.rows_unchanged + %(unchanged)s,
    batches = r.batches + %(batches)s, bursts = r.bursts + %(bursts)s
FROM held
WHERE r.id = (SELECT h.id FROM etl.etl_runs h WHERE h.pipeline_id = %(pipeline_id)s ORDER BY h.id DESC LIMIT 1)
  AND r.bursts > 0 AND r.status = 'SUCCESS' AND r.config_version = %(version)s
  AND date_trunc('hour', r.started_at) = date_trunc('hour', clock_timestamp())
RETURNING r.id

-- name: begin_hour
-- The first of its hour, or after a run. Zero rows: the lease is lost.
WITH held AS (
    SELECT l.pipeline_id, l.runner FROM etl.etl_leases l
    WHERE l.pipeline_id = %(pipeline_id)s AND l.owner = %(owner)s AND l.run_id IS NULL
    FOR UPDATE
)
INSERT INTO etl.etl_runs (pipeline_id, status, due_at, config_version, runner, finished_at, rows_read, rows_written,
                          rows_deleted, rows_unchanged, batches, bursts)
SELECT held.pipeline_id, 'SUCCESS', clock_timestamp(), %(version)s, held.runner, clock_timestamp(), %(read)s, %(written)s,
       %(deleted)s, %(unchanged)s, %(batches)s, greatest(%(bursts)s, 1)
FROM held
RETURNING id
