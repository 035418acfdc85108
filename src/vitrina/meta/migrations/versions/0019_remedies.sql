-- compatible-with: 0007
-- What to do about an error, beside it and no longer at its end. What older programs have written, and write, has both
-- in `error`.
ALTER TABLE etl.etl_runs ADD COLUMN remedy text;
ALTER TABLE etl.etl_requests ADD COLUMN remedy text;

-- As in 0005, with the remedy.
CREATE OR REPLACE FUNCTION etl.pipeline_failed() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM etl.open_incident(new, 'failed', coalesce(
        (SELECT jsonb_build_object('run', r.id, 'error', r.error, 'remedy', r.remedy) FROM etl.etl_runs r
         WHERE r.pipeline_id = new.id ORDER BY r.id DESC LIMIT 1), '{}'));
    RETURN NULL;
END $$;
