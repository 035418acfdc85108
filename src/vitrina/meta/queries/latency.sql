-- How late changes came to live marts, minute by minute.

-- name: add
-- What a process has counted since it last did so, all marts in one statement.
INSERT INTO etl.etl_latency AS l (pipeline_id, minute, arrivals, ms_sum, ms_max, buckets)
SELECT t.pipeline_id, t.minute, t.arrivals, t.ms_sum, t.ms_max, t.buckets::integer[]
FROM unnest(%(pipeline_ids)s::uuid[], %(minutes)s::timestamptz[], %(arrivals)s::integer[], %(ms_sums)s::float8[],
            %(ms_maxs)s::float8[], %(buckets)s::text[]) AS t (pipeline_id, minute, arrivals, ms_sum, ms_max, buckets)
ORDER BY t.pipeline_id, t.minute
ON CONFLICT (pipeline_id, minute) DO UPDATE
SET arrivals = l.arrivals + excluded.arrivals, ms_sum = l.ms_sum + excluded.ms_sum,
    ms_max = greatest(l.ms_max, excluded.ms_max),
    buckets = array(SELECT coalesce(b.old, 0) + coalesce(b.new, 0)
                    FROM unnest(l.buckets, excluded.buckets) WITH ORDINALITY AS b (old, new, n) ORDER BY b.n)

-- name: sample_backlog
-- How much live marts lack now, also those that nobody works at. Zero rows: none lacks more than was seen this minute.
INSERT INTO etl.etl_latency AS l (pipeline_id, minute, backlog)
SELECT f.pipeline_id, date_trunc('minute', clock_timestamp()), f.backlog
FROM etl.etl_followers f WHERE f.enabled AND f.concerned AND f.backlog > 0
ORDER BY f.pipeline_id
ON CONFLICT (pipeline_id, minute) DO UPDATE SET backlog = excluded.backlog WHERE excluded.backlog > l.backlog

-- name: recent
-- Of many pipelines, the last hour; how many minutes ago.
SELECT pipeline_id, arrivals, ms_sum, ms_max, buckets,
       (extract(epoch FROM date_trunc('minute', clock_timestamp()) - minute) / 60)::int AS ago
FROM etl.etl_latency
WHERE pipeline_id = ANY (%(ids)s) AND minute > date_trunc('minute', clock_timestamp()) - interval '1 hour' AND arrivals > 0
ORDER BY pipeline_id, minute

-- name: minutes
-- Of one pipeline; a minute without any arrival or backlog has no row.
SELECT minute, arrivals, ms_sum, ms_max, buckets, backlog FROM etl.etl_latency
WHERE pipeline_id = %(pipeline_id)s AND minute > clock_timestamp() - %(span)s::interval
ORDER BY minute
