-- compatible-with: 0007
-- What the files of a mart are, where it is kept in files.
ALTER TABLE etl.etl_pipelines ADD COLUMN format text CHECK (format = 'parquet');

-- The trigger as it was, for `format` too; and what is left out says nothing.
DO $$
DECLARE
    watched constant text := (
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)
        WHERE t.tgrelid = 'etl.etl_pipelines'::regclass AND t.tgname = 'pipeline_versions');
    before  constant text := pg_get_functiondef('etl.pipeline_config(etl.etl_pipelines)'::regprocedure);
    tasks   constant text := '|| jsonb_build_object(''tasks''';
BEGIN
    DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
    EXECUTE format('CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OF %s, format'
                   ' ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED FOR EACH ROW'
                   ' EXECUTE FUNCTION etl.pipeline_versions()', watched);
    ASSERT strpos(before, tasks) > 0, 'etl.pipeline_config is not as it was made';
    EXECUTE replace(before, tasks, '- CASE WHEN p.format IS NULL THEN ''format'' ELSE '''' END ' || tasks);
END $$;
