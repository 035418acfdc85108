-- name: link
-- A one-time link for the holder of a token. Zero rows: the token is unknown or revoked.
INSERT INTO etl.etl_sessions (hash, token_id, kind, expires_at)
SELECT %(hash)s, t.id, 'link', now() + make_interval(secs => %(seconds)s)
FROM etl.etl_tokens t WHERE t.hash = %(token)s AND t.revoked_at IS NULL
RETURNING token_id

-- name: open
-- Sign in with a token. Zero rows: it is unknown or revoked.
WITH opened AS (
    INSERT INTO etl.etl_sessions (hash, token_id, kind, expires_at)
    SELECT %(hash)s, t.id, 'session', now() + make_interval(secs => %(seconds)s)
    FROM etl.etl_tokens t WHERE t.hash = %(secret)s AND t.revoked_at IS NULL
    RETURNING token_id
)
SELECT t.name, t.role FROM opened JOIN etl.etl_tokens t ON t.id = opened.token_id

-- name: exchange
-- Sign in with a link, which is used up by it. Zero rows: it is unknown, used, too old, or its token is revoked.
WITH used AS (
    DELETE FROM etl.etl_sessions WHERE hash = %(secret)s AND kind = 'link' AND expires_at > now() RETURNING token_id
), opened AS (
    INSERT INTO etl.etl_sessions (hash, token_id, kind, expires_at)
    SELECT %(hash)s, t.id, 'session', now() + make_interval(secs => %(seconds)s)
    FROM used JOIN etl.etl_tokens t ON t.id = used.token_id AND t.revoked_at IS NULL
    RETURNING token_id
)
SELECT t.name, t.role FROM opened JOIN etl.etl_tokens t ON t.id = opened.token_id

-- name: vouched
-- Sign in whom a provider vouches for.
INSERT INTO etl.etl_sessions (hash, kind, issuer, name, role, expires_at)
VALUES (%(hash)s, 'session', %(issuer)s, %(name)s, %(role)s, now() + make_interval(secs => %(seconds)s))

-- name: use
-- A provider's answer is used once. Zero rows: it has been.
INSERT INTO etl.etl_sessions (hash, kind, expires_at)
VALUES (%(hash)s, 'answer', now() + make_interval(secs => %(seconds)s))
ON CONFLICT DO NOTHING RETURNING kind

-- name: find
-- Zero rows: nobody's, ended, its token is revoked, or its provider is no longer trusted.
SELECT coalesce(t.name, s.name) AS name, coalesce(t.role, s.role) AS role
FROM etl.etl_sessions s LEFT JOIN etl.etl_tokens t ON t.id = s.token_id AND t.revoked_at IS NULL
WHERE s.hash = %(hash)s AND s.kind = 'session' AND s.expires_at > now()
  AND (t.id IS NOT NULL OR (s.token_id IS NULL AND s.issuer = %(issuer)s::text))

-- name: close
DELETE FROM etl.etl_sessions WHERE hash = %(hash)s AND kind = 'session'

-- name: prune
DELETE FROM etl.etl_sessions WHERE expires_at < now()
