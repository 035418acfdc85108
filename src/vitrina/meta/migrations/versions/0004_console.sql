-- Who is signed in to the console, and the one-time links that let somebody in. Secrets are stored as hashes only.
CREATE TABLE etl.etl_sessions (
    hash       bytea PRIMARY KEY,
    token_id   uuid NOT NULL REFERENCES etl.etl_tokens ON DELETE CASCADE,   -- revoked: its sessions end with it
    kind       text NOT NULL CHECK (kind IN ('link', 'session')),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX etl_sessions_by_age ON etl.etl_sessions (expires_at);

-- What was done with one pipeline, newest first.
CREATE INDEX etl_audit_of_pipeline ON etl.etl_audit (pipeline_id, id DESC);

-- What a runner sees of the places it writes to, by name: {"version": …, "milliseconds": …} or {"error": …}.
ALTER TABLE etl.etl_runners ADD COLUMN sinks jsonb NOT NULL DEFAULT '{}';
