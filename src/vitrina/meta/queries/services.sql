-- name: marks
-- The roles by which managed services are known. Zero rows: a plain server.
SELECT rolname::text AS name FROM pg_roles WHERE rolname = ANY (%(marks)s::text[]) ORDER BY 1
