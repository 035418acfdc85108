-- name: add
INSERT INTO etl.etl_tokens (name, hash, role) VALUES (%(name)s, %(hash)s, %(role)s) RETURNING id

-- name: displace
DELETE FROM etl.etl_tokens WHERE name = %(name)s AND hash <> %(hash)s

-- name: keep
INSERT INTO etl.etl_tokens (name, hash, role) VALUES (%(name)s, %(hash)s, %(role)s) ON CONFLICT (hash) DO NOTHING

-- name: find
SELECT name, role FROM etl.etl_tokens WHERE hash = %(hash)s AND revoked_at IS NULL

-- name: revoke
-- Zero rows: there is no such token, or it has been revoked.
UPDATE etl.etl_tokens SET revoked_at = now() WHERE name = %(name)s AND revoked_at IS NULL RETURNING id

-- name: list
SELECT name, role, created_at, revoked_at FROM etl.etl_tokens ORDER BY name

-- name: any
SELECT EXISTS (SELECT FROM etl.etl_tokens WHERE revoked_at IS NULL) AS yes
