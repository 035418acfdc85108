-- Runs that wait until somebody answers, and pipelines that have failed and are tried again: without a slot, until a time.

-- name: postpone
-- In the transaction that gave the pipeline back: until when, longer each time that it gets no further. Zero rows: it is
-- paused, or disabled.
WITH mine AS (
    SELECT p.id, r.id AS run_id, r.batches FROM etl.etl_pipelines p JOIN etl.etl_runs r ON r.id = %(run_id)s
    WHERE p.id = %(pipeline_id)s AND p.status = 'RUN_REQUESTED' AND p.enabled
), counted AS (
    SELECT mine.*, coalesce(before.since, clock_timestamp()) AS since, coalesce(before.tries, 0) + 1 AS tries
    FROM mine LEFT JOIN etl.etl_postponed before
      ON before.pipeline_id = mine.id AND before.neighbour IS NOT DISTINCT FROM %(neighbour)s::text
         AND (before.neighbour IS NULL OR before.run_id = mine.run_id AND before.batches = mine.batches)
), kept AS (
    INSERT INTO etl.etl_postponed (pipeline_id, run_id, neighbour, since, tries, batches, error, remedy, next_at)
    SELECT id, run_id, %(neighbour)s, since, tries, batches, coalesce(%(error)s, ''), %(remedy)s,
           clock_timestamp() + make_interval(secs => least(%(first)s * power(2.0, least(tries - 1, 30)), %(longest)s)::float8)
    FROM counted
    ON CONFLICT (pipeline_id) DO UPDATE
    SET run_id = EXCLUDED.run_id, neighbour = EXCLUDED.neighbour, since = EXCLUDED.since, tries = EXCLUDED.tries,
        batches = EXCLUDED.batches, error = EXCLUDED.error, remedy = EXCLUDED.remedy, next_at = EXCLUDED.next_at
    RETURNING pipeline_id, since, tries, next_at
), due AS (
    UPDATE etl.etl_pipelines p SET due_at = kept.next_at FROM kept WHERE p.id = kept.pipeline_id
    RETURNING p.id
)
SELECT kept.since, kept.tries, kept.next_at, extract(epoch FROM kept.next_at - clock_timestamp())::float8 AS seconds
FROM kept JOIN due ON due.id = kept.pipeline_id

-- name: try_later
-- It has failed just now, and its pipeline says that it is tried again. Zero rows: it says nothing of the kind.
UPDATE etl.etl_pipelines SET status = 'RUN_REQUESTED'
WHERE id = %(pipeline_id)s AND status = 'FAILED' AND enabled AND on_failure = 'retry'
RETURNING id

-- name: answers
-- Somebody answers again: those that wait are due, and runners are told. One that is locked is due by itself, later.
WITH free AS (
    SELECT p.id FROM etl.etl_pipelines p JOIN etl.etl_postponed w ON w.pipeline_id = p.id
    WHERE w.neighbour = %(neighbour)s AND p.status = 'RUN_REQUESTED' AND p.due_at > clock_timestamp()
    FOR UPDATE OF p SKIP LOCKED
), due AS (
    UPDATE etl.etl_pipelines p SET due_at = now() FROM free WHERE p.id = free.id
    RETURNING p.id
), told AS (
    UPDATE etl.etl_postponed w SET next_at = now() FROM due WHERE w.pipeline_id = due.id
    RETURNING w.pipeline_id
)
SELECT count(*) AS due, pg_notify('vitrina_wake', %(neighbour)s) FROM told HAVING count(*) > 0

-- name: hurry
-- Somebody asks for a run of one that waits: it is tried now, whoever is thought to be away. Zero rows: it waits for
-- nobody, or is due anyway.
WITH free AS (
    SELECT p.id FROM etl.etl_pipelines p JOIN etl.etl_postponed w ON w.pipeline_id = p.id
    WHERE p.id = %(id)s AND p.enabled AND p.status = 'RUN_REQUESTED' AND p.due_at >= w.next_at
), due AS (
    UPDATE etl.etl_pipelines p
    SET due_at = least(now(), p.due_at - interval '1 microsecond'), run_options = p.run_options || %(options)s::jsonb
    FROM free WHERE p.id = free.id
    RETURNING p.id
)
SELECT pg_notify('vitrina_wake', due.id::text) FROM due

-- name: shown
-- For people: of these pipelines, or of all, those that wait now, for whom or after what, and until when.
SELECT w.pipeline_id, p.name, w.neighbour, w.since, w.tries, w.error, w.remedy, p.due_at AS next_at
FROM etl.etl_postponed w JOIN etl.etl_pipelines p ON p.id = w.pipeline_id
WHERE p.status = 'RUN_REQUESTED' AND p.enabled AND (w.neighbour IS NOT NULL OR p.due_at > clock_timestamp())
  AND (%(ids)s::uuid[] IS NULL OR p.id = ANY (%(ids)s))
ORDER BY w.since

-- name: silent
-- For people: of these pipelines, or of all, those that are to be run or followed now, and whose source or sink does not
-- answer whoever would or does. Each runner asks it again by itself.
SELECT DISTINCT ON (p.id) p.id AS pipeline_id, p.name, n.key AS neighbour, (n.value ->> 'since')::timestamptz AS since,
       n.value ->> 'error' AS error, (n.value ->> 'next_at')::timestamptz AS next_at
FROM etl.etl_pipelines p JOIN etl.etl_leases l ON l.pipeline_id = p.id,
     etl.etl_runners w, jsonb_each(w.neighbours) n
WHERE (p.status IN ('FOLLOWING', 'RUN_REQUESTED') OR p.status = 'IDLE' AND p.due_at <= clock_timestamp()) AND p.enabled
  AND (l.owner IS NULL OR l.owner = w.id OR l.expires_at <= clock_timestamp())
  AND w.seen_at > now() - interval '2 minutes'
  AND n.key IN (p.source, split_part(coalesce(p.effective_target, ''), ':', 1) || ':')
  AND (%(ids)s::uuid[] IS NULL OR p.id = ANY (%(ids)s))
ORDER BY p.id, since
