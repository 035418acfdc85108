-- name: export
SELECT pg_export_snapshot() AS snapshot

-- name: known_bounds
-- Of a column of a table, as ANALYZE has found them, in its order; so many parts. Zero rows: nothing is known.
SELECT array_agg(h.bounds[1 + n * (cardinality(h.bounds) - 1) / %(parts)s] ORDER BY n) AS bounds
FROM (
    SELECT s.histogram_bounds::text::text[] AS bounds
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    JOIN pg_namespace m ON m.oid = c.relnamespace
    JOIN pg_stats s ON s.schemaname = m.nspname AND s.tablename = c.relname AND s.attname = a.attname
    WHERE a.attrelid = %(table)s::oid AND a.attnum = %(column)s AND s.histogram_bounds IS NOT NULL
) AS h, generate_series(1, %(parts)s - 1) AS n
HAVING count(*) > 0
