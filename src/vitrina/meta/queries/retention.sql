-- What is old is forgotten oldest first, at most `most` rows of a kind in one transaction.

-- name: events
WITH gone AS (
    DELETE FROM etl.etl_run_events WHERE id IN (
        SELECT e.id FROM etl.etl_run_events e WHERE e.at < now() - make_interval(secs => %(event_seconds)s)
        ORDER BY e.at LIMIT %(most)s)
    RETURNING id)
SELECT count(*) AS events FROM gone

-- name: alerts
WITH gone AS (
    DELETE FROM etl.etl_alerts WHERE id IN (
        SELECT a.id FROM etl.etl_alerts a WHERE a.created_at < now() - make_interval(secs => %(event_seconds)s)
        ORDER BY a.created_at LIMIT %(most)s)
    RETURNING id), tests AS (
    DELETE FROM etl.etl_deliveries WHERE id IN (
        SELECT d.id FROM etl.etl_deliveries d
        WHERE d.alert_id IS NULL AND d.created_at < now() - make_interval(secs => %(event_seconds)s)
        ORDER BY d.created_at LIMIT %(most)s)
    RETURNING id)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM tests) AS alerts

-- name: requests
-- The last answer of each pipeline and kind stays.
WITH gone AS (
    DELETE FROM etl.etl_requests WHERE id IN (
        SELECT r.id FROM etl.etl_requests r
        WHERE r.finished_at < now() - make_interval(secs => %(event_seconds)s)
          AND (r.status = 'FAILED' OR r.pipeline_id IS NULL OR EXISTS (
                   SELECT FROM etl.etl_requests n
                   WHERE n.pipeline_id = r.pipeline_id AND n.kind = r.kind AND n.status = 'DONE'
                     AND n.created_at > r.created_at))
        ORDER BY r.finished_at LIMIT %(most)s)
    RETURNING id)
SELECT count(*) AS requests FROM gone

-- name: runs
-- The newest of each pipeline stay, however old, and so does the last that succeeded: how fresh its mart is.
WITH gone AS (
    DELETE FROM etl.etl_runs WHERE id IN (
        SELECT r.id FROM etl.etl_runs r
        WHERE r.finished_at < now() - make_interval(secs => %(run_seconds)s)
          AND r.id < (SELECT n.id FROM etl.etl_runs n WHERE n.pipeline_id = r.pipeline_id
                      ORDER BY n.id DESC OFFSET %(newest)s - 1 LIMIT 1)
          AND (r.status <> 'SUCCESS' OR EXISTS (
                   SELECT FROM etl.etl_runs g
                   WHERE g.pipeline_id = r.pipeline_id AND g.id > r.id AND g.status = 'SUCCESS'))
        ORDER BY r.finished_at LIMIT %(most)s)
    RETURNING id)
SELECT count(*) AS runs FROM gone

-- name: runners
-- Those that were lost: who ends in peace signs off.
WITH gone AS (DELETE FROM etl.etl_runners WHERE seen_at < now() - interval '1 day' RETURNING id)
SELECT count(*) AS runners FROM gone

-- name: latency
WITH gone AS (
    DELETE FROM etl.etl_latency l USING (
        SELECT o.pipeline_id, o.minute FROM etl.etl_latency o
        WHERE o.minute < now() - make_interval(secs => %(latency_seconds)s)
        ORDER BY o.minute LIMIT %(most)s) AS old
    WHERE l.pipeline_id = old.pipeline_id AND l.minute = old.minute
    RETURNING l.minute)
SELECT count(*) AS latency FROM gone

-- name: managed
-- What only the control plane may touch.
SELECT * FROM etl.forget_managed(%(audit_seconds)s, %(version_seconds)s, %(most)s)
