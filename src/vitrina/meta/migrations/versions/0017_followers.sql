-- compatible-with: 0007
-- The live pipelines: who follows which log, how far, how much is left, and why the log does not lead on from there. All
-- statements that ask for it ask here; a position is taken apart nowhere else.
CREATE VIEW etl.etl_followers AS
SELECT p.id AS pipeline_id, p.name, p.source, p.enabled, p.status, p.due_at, p.schedule_interval,
       s.checkpoint, l.slot, l.generation, l.id AS at_id, j.live -> 'columns' AS columns,   -- as it was when it was compared
       (j.live ->> 'not_before')::timestamptz AS not_before, (j.live ->> 'committed_at')::timestamptz AS committed_at,
       (j.live ->> 'lag_ms')::float8 AS lag_ms, (j.live ->> 'compare_seconds')::float8 AS compare_seconds,
       c.source IS NOT NULL AS captured, c.caught_up_at,
       r.reason,                            -- NULL: it goes on from its position; else a code of domain/positions.py
       CASE r.reason WHEN 'comparing' THEN l.comparing
                     WHEN 'continuity_lost' THEN c.generation_reason END AS detail,
       CASE WHEN h.held THEN c.last_id - l.id END AS backlog,   -- NULL: the log does not have what comes after
       h.held AND EXISTS (SELECT FROM jsonb_array_elements_text(j.live -> 'tables') AS t (relation)
                          WHERE (c.recent ->> t.relation)::bigint > l.id) AS concerned   -- some of it is of its tables
FROM etl.etl_pipelines p
JOIN etl.etl_state s ON s.pipeline_id = p.id
LEFT JOIN etl.etl_captures c ON c.source = p.source AND c.installed_at IS NOT NULL
CROSS JOIN LATERAL (SELECT s.checkpoint -> 'live' AS live OFFSET 0) j   -- read once, however large it is
CROSS JOIN LATERAL (
    SELECT j.live ->> 'source' AS source, j.live ->> 'slot' AS slot, (j.live ->> 'generation')::integer AS generation,
           (j.live ->> 'id')::bigint AS id, j.live ->> 'comparing' AS comparing OFFSET 0) l
CROSS JOIN LATERAL (
    SELECT coalesce(l.source = c.source AND l.slot = c.slot AND l.generation = c.generation
                    AND l.id BETWEEN c.log_start - 1 AND c.last_id, false) AS held) h
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.source IS NULL THEN 'not_captured'
                WHEN j.live IS NULL THEN 'not_live'
                WHEN l.comparing IS NOT NULL THEN 'comparing'
                WHEN h.held THEN NULL
                WHEN l.source IS DISTINCT FROM c.source THEN 'other_source'
                WHEN l.slot IS DISTINCT FROM c.slot THEN 'installed_anew'
                WHEN l.generation IS DISTINCT FROM c.generation THEN 'continuity_lost'
                ELSE 'out_of_log' END AS reason) r
WHERE p.mode = 'live';

-- The same as before, by that view, with how much a live mart lacks and how late its last change was.
CREATE OR REPLACE VIEW etl.etl_freshness AS
SELECT p.id AS pipeline_id, good.finished_at AS succeeded_at, p.freshness_limit::interval AS allowed,
       f.fresh_at, known.at AS known_at, p.mode = 'live' AND NOT l.follows AS behind,
       -- one that was never filled counts from when it was made
       p.enabled AND clock_timestamp() - coalesce(f.fresh_at, p.created_at) > p.freshness_limit::interval AS stale,
       CASE WHEN l.follows THEN 0 ELSE w.backlog END AS backlog, w.lag_ms
FROM etl.etl_pipelines p
LEFT JOIN etl.etl_followers w ON w.pipeline_id = p.id
LEFT JOIN etl.etl_behind b ON b.pipeline_id = p.id
LEFT JOIN LATERAL (SELECT r.started_at, r.finished_at FROM etl.etl_runs r
                   WHERE r.pipeline_id = p.id AND r.status = 'SUCCESS' ORDER BY r.id DESC LIMIT 1) good ON true
CROSS JOIN LATERAL (SELECT w.pipeline_id IS NOT NULL AND w.reason IS NULL AND NOT w.concerned AS follows) l
CROSS JOIN LATERAL (SELECT greatest(w.committed_at, good.started_at) AS at) known
CROSS JOIN LATERAL (
    SELECT CASE WHEN p.mode <> 'live' THEN good.started_at
                WHEN l.follows THEN w.caught_up_at
                WHEN known.at IS NOT NULL THEN greatest(known.at, coalesce(b.since, w.caught_up_at)) END AS fresh_at) f;
