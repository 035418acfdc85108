-- compatible-with: 0007
-- Sessions without a token of ours: a provider of OpenID Connect vouched for a name, and settings gave it a role.
-- They hold as long as that provider is the one that is trusted. And which of its answers have been used.
ALTER TABLE etl.etl_sessions
    ALTER COLUMN token_id DROP NOT NULL,
    ADD COLUMN issuer text,
    ADD COLUMN name   text,
    ADD COLUMN role   text CHECK (role IN ('viewer', 'operator', 'admin')),
    DROP CONSTRAINT etl_sessions_kind_check,
    ADD CONSTRAINT etl_sessions_kind_check CHECK (kind IN ('link', 'session', 'answer')),
    ADD CONSTRAINT etl_sessions_whose CHECK (
        CASE kind WHEN 'link' THEN token_id IS NOT NULL AND num_nonnulls(issuer, name, role) = 0
                  WHEN 'answer' THEN num_nonnulls(token_id, issuer, name, role) = 0
                  ELSE num_nonnulls(issuer, name, role) = CASE WHEN token_id IS NULL THEN 3 ELSE 0 END END);
