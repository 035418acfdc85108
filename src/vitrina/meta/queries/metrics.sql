-- name: pipelines
-- How every pipeline stands, for metrics: two descents of an index each.
SELECT p.name AS pipeline, coalesce(p.effective_target, '') AS target, p.status, p.enabled, p.mode,
       s.last_processed_value, f.lag_ms,
       extract(epoch FROM f.succeeded_at)::float8 AS succeeded_at,
       CASE WHEN f.fresh_at IS NOT NULL
            THEN greatest(extract(epoch FROM clock_timestamp() - f.fresh_at)::float8, 0) END AS age,
       extract(epoch FROM f.allowed)::float8 AS allowed, f.stale, clock_timestamp() AS now,
       f.backlog,
       CASE WHEN p.checks <> '[]'
            THEN (SELECT count(*) FROM etl.etl_checks k
                  WHERE k.pipeline_id = p.id AND k.outcome <> 'kept'
                    AND p.checks @> jsonb_build_array(jsonb_build_object('name', k.name))) END AS checks_broken,
       CASE WHEN p.mode = 'live' THEN EXISTS (SELECT FROM etl.etl_incidents i
                                              WHERE i.pipeline_id = p.id AND i.kind = 'stuck') END AS stuck,
       CASE WHEN p.mode = 'live'
            THEN coalesce(c.installed_at IS NOT NULL AND c.owner IS NOT NULL AND c.expires_at > clock_timestamp()
                          AND c.last_error IS NULL AND c.wal_status IS DISTINCT FROM 'lost', false) END AS captured,
       CASE WHEN a.whole_since IS NOT NULL THEN 1
            WHEN a.pipeline_id IS NOT NULL THEN least(a.lap_rows / greatest(a.lap_of, a.lap_rows, 1)::float8, 0.99)
       END AS audited,
       a.rows AS audited_rows, a.wrong AS wrong_rows, a.seconds AS audit_seconds
FROM etl.etl_pipelines p
JOIN etl.etl_state s ON s.pipeline_id = p.id
JOIN etl.etl_freshness f ON f.pipeline_id = p.id
LEFT JOIN etl.etl_mart_audits a ON a.pipeline_id = p.id
LEFT JOIN etl.etl_captures c ON c.source = p.source
ORDER BY p.name

-- name: system
-- One row about the rest. A runner that ended in order has signed off; one that was lost is silent for an hour.
SELECT r.*, c.*, a.*, n.*
FROM (SELECT count(*) FILTER (WHERE alive) AS runners_alive, count(*) FILTER (WHERE NOT alive) AS runners_silent,
             extract(epoch FROM clock_timestamp() - max(seen_at))::float8 AS heartbeat_age
      FROM (SELECT seen_at, seen_at > now() - make_interval(secs => %(seconds)s) AS alive FROM etl.etl_runners
            WHERE seen_at > now() - interval '1 hour') AS seen) r,
     (SELECT count(*) FILTER (WHERE held AND last_error IS NULL) AS captures_capturing,
             count(*) FILTER (WHERE NOT held AND last_error IS NULL) AS captures_idle,
             count(*) FILTER (WHERE last_error IS NOT NULL) AS captures_failed,
             max(lag_bytes) AS slot_lag, min(safe_wal_size) AS slot_safe,
             max(extract(epoch FROM clock_timestamp() - caught_up_at)::float8) AS capture_lag,
             coalesce(sum(last_id - log_start + 1), 0)::bigint AS log_changes
      FROM (SELECT *, owner IS NOT NULL AND expires_at > clock_timestamp() AS held FROM etl.etl_captures
            WHERE installed_at IS NOT NULL) AS installed) c,
     (SELECT count(*) FILTER (WHERE status IN ('PENDING', 'ROUTED')) AS alerts_pending,
             count(*) FILTER (WHERE status = 'GIVEN_UP') AS alerts_given_up
      FROM etl.etl_alerts) a,
     (SELECT count(DISTINCT k.name) AS neighbours_silent FROM etl.etl_runners w, jsonb_object_keys(w.neighbours) AS k (name)
      WHERE w.seen_at > now() - make_interval(secs => %(seconds)s)) n
