-- compatible-with: 0007
-- Marts over marts. A program that does not know `after` reads pipelines without it as ever, and makes nobody due by it.
ALTER TABLE etl.etl_pipelines ADD COLUMN after text CHECK (after = 'upstream');   -- NULL: by its schedule, or asked for
CREATE INDEX etl_pipelines_downstream ON etl.etl_pipelines (id) WHERE after IS NOT NULL AND enabled;

-- What is left out says nothing: configurations from before are what they were.
CREATE OR REPLACE FUNCTION etl.pipeline_config(p etl.etl_pipelines) RETURNS jsonb LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_jsonb(p) - '{version,effective_target,created_at,updated_at,status,run_options,due_at,last_due_at,reload_version}'::text[]
        - CASE WHEN p.after IS NULL THEN 'after' ELSE '' END - CASE p.on_failure WHEN 'stop' THEN 'on_failure' ELSE '' END
        || jsonb_build_object('tasks', coalesce(
               (SELECT jsonb_agg(jsonb_build_object('order_index', t.order_index, 'task_type', t.task_type,
                                                    'body', t.body, 'target_table', t.target_table)
                                 ORDER BY t.order_index)
                FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id), '[]'))
$$;

-- The trigger as it was, for `after` too.
DO $$
DECLARE
    watched constant text := (
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)
        WHERE t.tgrelid = 'etl.etl_pipelines'::regclass AND t.tgname = 'pipeline_versions');
BEGIN
    DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
    EXECUTE format('CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OF %s, after ON etl.etl_pipelines'
                   ' DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions()', watched);
END $$;

-- What each pipeline reads of the warehouse, as its server resolved the query when it was saved or ran last.
CREATE TABLE etl.etl_reads (
    pipeline_id uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    relations   text[] NOT NULL,             -- schema.name; also what is behind views
    version     integer NOT NULL             -- of the configuration
);

-- Whose mart each pipeline reads.
CREATE VIEW etl.etl_upstream AS
SELECT r.pipeline_id, u.id AS upstream_id
FROM etl.etl_reads r CROSS JOIN LATERAL unnest(r.relations) AS t (relation)
JOIN etl.etl_pipelines u ON u.effective_target = t.relation;
