-- compatible-with: 0007
-- Names are found in the server's own catalogue, whoever may create elsewhere. A statement that writes finds none in the
-- schemas of VITRINA_SEARCH_PATH, so the user's SELECT inside of it is told them here; from a program that says nothing
-- of it, the SELECT goes on finding what its session finds.
ALTER FUNCTION etl.pipeline_wakes() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION etl.request_wakes() SET search_path = pg_catalog, pg_temp;

CREATE OR REPLACE FUNCTION etl.read_as_reader(query text, args text[]) RETURNS SETOF record
    LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
DECLARE
    ours constant text := pg_catalog.current_setting('search_path');
    theirs constant text := pg_catalog.current_setting('vitrina.search_path', true);
BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true),
            pg_catalog.set_config('search_path', CASE WHEN theirs OPERATOR(pg_catalog.<>) '' THEN theirs ELSE ours END, true);
    RETURN QUERY EXECUTE query USING args;
    PERFORM pg_catalog.set_config('search_path', ours, true);
EXCEPTION WHEN SQLSTATE 'VITRA' THEN
    RAISE;
END $$;

-- Who may come in is written down, whoever changes it: by command, by API or by hand. Never the secret, nor its hash.
CREATE FUNCTION etl.token_changed() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    token etl.etl_tokens := coalesce(new, old);
BEGIN
    INSERT INTO etl.etl_audit (actor, action, details)
    VALUES (coalesce(nullif(current_setting('vitrina.actor', true), ''), session_user),
            CASE tg_op WHEN 'INSERT' THEN 'create-token' WHEN 'DELETE' THEN 'delete-token'
                       ELSE CASE WHEN new.revoked_at IS NOT NULL AND old.revoked_at IS NULL
                                 THEN 'revoke-token' ELSE 'change-token' END END,
            jsonb_build_object('token', token.name, 'role', token.role));
    RETURN NULL;
END $$;
CREATE TRIGGER token_changed AFTER INSERT OR UPDATE OR DELETE ON etl.etl_tokens
    FOR EACH ROW EXECUTE FUNCTION etl.token_changed();
