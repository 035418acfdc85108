-- compatible-with: 0007
-- How the rows of a mart in a lake are kept apart. A program that does not know of it writes them undivided, and the next
-- run of one that does makes the table anew.
ALTER TABLE etl.etl_pipelines ADD COLUMN partition_by text[] NOT NULL DEFAULT '{}';

-- The trigger as it was, for `partition_by` too; and what is left out says nothing.
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
    EXECUTE format('CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OF %s, partition_by'
                   ' ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED FOR EACH ROW'
                   ' EXECUTE FUNCTION etl.pipeline_versions()', watched);
    ASSERT strpos(before, tasks) > 0, 'etl.pipeline_config is not as it was made';
    EXECUTE replace(before, tasks, '- CASE p.partition_by WHEN ''{}'' THEN ''partition_by'' ELSE '''' END ' || tasks);
END $$;
