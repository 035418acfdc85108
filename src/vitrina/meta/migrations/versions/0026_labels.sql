-- compatible-with: 0007
-- Labels of pipelines: `name:value`, or a name alone. A program that does not know them reads pipelines without any as ever.
CREATE FUNCTION etl.are_labels(labels text[]) RETURNS boolean LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT cardinality(labels) <= 32 AND NOT EXISTS (
        SELECT FROM unnest(labels) AS l (label)
        WHERE (l.label ~ '^[^\s\u0001-\u001f\u007f,:''"<>\[\]{}]+(:[^\s\u0001-\u001f\u007f,:''"<>\[\]{}]+)?$' AND length(l.label) <= 100) IS NOT TRUE)
$$;
ALTER TABLE etl.etl_pipelines ADD COLUMN labels text[] NOT NULL DEFAULT '{}' CHECK (etl.are_labels(labels));

-- All that are wanted are there; a name alone means any value of it.
CREATE FUNCTION etl.has_labels(labels text[], wanted text[]) RETURNS boolean LANGUAGE sql IMMUTABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT NOT EXISTS (
        SELECT FROM unnest(wanted) AS w (label)
        WHERE NOT EXISTS (SELECT FROM unnest(labels) AS l (label)
                          WHERE l.label = w.label OR starts_with(l.label, w.label || ':')))
$$;

-- What others have made of these since they were written stays: only labels are added. What is left out says nothing, so
-- configurations from before are what they were; and a mart that is followed need not be run for another label.
DO $$
DECLARE
    watched constant text := (
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)
        WHERE t.tgrelid = 'etl.etl_pipelines'::regclass AND t.tgname = 'pipeline_versions');
    config constant text := pg_catalog.pg_get_functiondef('etl.pipeline_config(etl.etl_pipelines)'::regprocedure);
    versions constant text := pg_catalog.pg_get_functiondef('etl.pipeline_versions()'::regprocedure);
    with_labels constant text := regexp_replace(
        config, '\m(SELECT\s+to_jsonb\(p\))', '\1 - CASE p.labels WHEN ''{}'' THEN ''labels'' ELSE '''' END');
    with_editable constant text := regexp_replace(versions, '(editable constant text\[\] := ''\{)', '\1labels,');
BEGIN
    IF with_labels = config OR with_editable = versions THEN
        RAISE EXCEPTION 'the functions over configurations are not as they were written';
    END IF;
    EXECUTE with_labels;
    EXECUTE with_editable;
    DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
    EXECUTE format('CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OF %s, labels ON etl.etl_pipelines'
                   ' DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions()', watched);
END $$;
