-- name: sight
SELECT pg_is_in_recovery() AS standby, current_setting('track_activities')::boolean AS track_activities,
       pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS sees_all

-- name: oldest
-- Every open transaction counts, also idle ones that have written nothing yet; only those that write no rows at all do
-- not: Vitrina's reader, and autovacuum, which can be at one table for hours.
WITH open AS (
    SELECT a.pid, a.usename, a.application_name, a.client_addr::text, a.state, a.xact_start,
           a.backend_xid IS NOT NULL AS wrote, left(a.query, 80) AS query,
           a.query = '<insufficient privilege>' AS hidden, a.state = 'disabled' AS untracked
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.usename IS DISTINCT FROM 'vitrina_reader'
      AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
)
SELECT clock_timestamp() AS now, least(statement_timestamp(), min(xact_start)) AS at,
       coalesce(max(xact_start) > clock_timestamp(), false) AS ahead,   -- it began before the clock was set back
       coalesce(bool_or(hidden), false) AS blind, min(usename) FILTER (WHERE untracked) AS untracked,
       (SELECT to_jsonb(o) - 'hidden' - 'untracked' || jsonb_build_object('age_seconds',
               round(extract(epoch FROM clock_timestamp() - o.xact_start)::numeric, 1))
        FROM open o WHERE o.xact_start IS NOT NULL
        ORDER BY o.xact_start > clock_timestamp() DESC, o.xact_start LIMIT 1) AS holder
FROM open

-- name: prepared
SELECT gid AS prepared_transaction, owner AS usename, extract(epoch FROM now() - prepared)::int AS age_seconds
FROM pg_prepared_xacts WHERE database = current_database() ORDER BY prepared LIMIT 1

-- name: naive_bound
-- A moment as a time without zone. Which zone the application stamps in is not known: the earlier of UTC and the
-- server's own is safe for both. Where the server's clock is about to be set back, the hour that comes twice is not
-- final before it has come twice.
SELECT least(at AT TIME ZONE 'UTC', at AT TIME ZONE zone, (at + later) AT TIME ZONE zone - later)::text AS bound
FROM (SELECT %(at)s::timestamptz AS at, s.reset_val AS zone, interval '3 hours' AS later
      FROM pg_settings s WHERE s.name = 'TimeZone') AS t

-- name: clock
SELECT clock_timestamp() AS now

-- name: may_place
-- Whether this role may ask where the server is in its history.
SELECT bool_and(has_function_privilege(f, 'EXECUTE')) AS may
FROM unnest(ARRAY['pg_control_system()', 'pg_current_wal_flush_lsn()', 'pg_walfile_name(pg_lsn)']) AS f

-- name: place
-- Which database of which server this is, and where in its history: up to where the log is on disk, since the rest may
-- be lost without anybody having gone back.
SELECT d.oid::bigint AS database, (SELECT system_identifier::text FROM pg_control_system()) AS system,
       ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::integer AS timeline,
       pg_current_wal_flush_lsn()::text AS lsn, clock_timestamp() AS clock
FROM pg_database d WHERE d.datname = current_database()

-- name: bare_place
SELECT d.oid::bigint AS database, clock_timestamp() AS clock FROM pg_database d WHERE d.datname = current_database()
