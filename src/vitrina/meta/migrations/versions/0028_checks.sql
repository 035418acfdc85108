-- compatible-with: 0007
-- What a pipeline asks of its mart. A program that does not know of it publishes without asking.
ALTER TABLE etl.etl_pipelines
    ADD COLUMN checks jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(checks) = 'array');

-- The trigger as it was, for `checks` too; and what is left out says nothing: configurations from before are what they
-- were. Whatever else was added to either stays.
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
    EXECUTE format('CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OF %s, checks ON etl.etl_pipelines'
                   ' DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions()', watched);
    ASSERT strpos(before, tasks) > 0, 'etl.pipeline_config is not as it was made';
    EXECUTE replace(before, tasks, '- CASE p.checks WHEN ''[]'' THEN ''checks'' ELSE '''' END ' || tasks);
END $$;

-- How each check stands, as it was asked last.
CREATE TABLE etl.etl_checks (
    pipeline_id uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    name        text NOT NULL,
    kind        text NOT NULL,
    effect      text NOT NULL CHECK (effect IN ('block', 'warn')),
    definition  text NOT NULL,               -- of what was asked, in brief: another one is asked anew
    outcome     text NOT NULL CHECK (outcome IN ('kept', 'broken', 'blocked', 'unasked')),
    rows        bigint NOT NULL DEFAULT 0,   -- that break it
    keys        jsonb NOT NULL DEFAULT '[]', -- of a few of them
    error       text,                        -- why it could not be asked
    run_id      bigint,                      -- that asked it last, as long as that is kept
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),   -- it stands like this
    asked_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline_id, name)
);

-- What came of it in each run: the worst, and all rows of its batches together.
CREATE TABLE etl.etl_run_checks (
    run_id  bigint NOT NULL REFERENCES etl.etl_runs ON DELETE CASCADE,
    name    text NOT NULL,
    kind    text NOT NULL,
    effect  text NOT NULL CHECK (effect IN ('block', 'warn')),
    outcome text NOT NULL CHECK (outcome IN ('kept', 'broken', 'blocked', 'unasked')),
    rows    bigint NOT NULL DEFAULT 0,
    keys    jsonb NOT NULL DEFAULT '[]',
    error   text,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, name)
);

-- An incident of its own: rows that break a check are in the mart.
DO $$
DECLARE
    given record;
    known text;
BEGIN
    FOR given IN SELECT conrelid::regclass AS held, conname, substring(pg_get_constraintdef(oid) FROM '\(*(\w+) = ANY') AS named,
                        pg_get_constraintdef(oid) AS said
                 FROM pg_constraint WHERE conname IN ('etl_incidents_kind_check', 'etl_alerts_event_check') LOOP
        SELECT string_agg(quote_literal(m[1]), ', ') INTO known FROM regexp_matches(given.said, '''([a-z_]+)''', 'g') AS m;
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %I CHECK (%I IN (%s, ''check''))',
                       given.held, given.conname, given.conname, given.named, known);
    END LOOP;
END $$;
