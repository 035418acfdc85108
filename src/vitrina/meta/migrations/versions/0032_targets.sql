-- compatible-with: 0007
-- Many marts of one query. A pipeline that names `targets` is a configuration and is never run; each target is a pipeline
-- of its own, with its own position, lease, epoch, runs and incidents, which these triggers keep equal to it.
ALTER TABLE etl.etl_pipelines
    ADD COLUMN targets text[] NOT NULL DEFAULT '{}',
    ADD COLUMN part_of uuid REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    ADD CHECK (targets = '{}' OR target_table IS NULL AND part_of IS NULL),
    ADD CHECK (targets = '{}' OR status = 'IDLE' AND due_at IS NULL),
    ADD UNIQUE (part_of, target_table);

-- The trigger as it was, for these too; and what is left out says nothing.
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
    EXECUTE format('CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OF %s, targets, part_of'
                   ' ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED FOR EACH ROW'
                   ' EXECUTE FUNCTION etl.pipeline_versions()', watched);
    ASSERT strpos(before, tasks) > 0, 'etl.pipeline_config is not as it was made';
    EXECUTE replace(before, tasks, '- CASE p.targets WHEN ''{}'' THEN ''targets'' ELSE '''' END'
                                   ' - CASE WHEN p.part_of IS NULL THEN ''part_of'' ELSE '''' END ' || tasks);
END $$;

-- It has no position, and nothing to hold.
CREATE OR REPLACE TRIGGER pipeline_added AFTER INSERT ON etl.etl_pipelines
    FOR EACH ROW WHEN (new.targets = '{}') EXECUTE FUNCTION etl.pipeline_added();

-- It rests for ever, whoever plans it; and who has a position keeps it.
CREATE FUNCTION etl.pipeline_targets() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tg_op = 'UPDATE' AND (new.targets = '{}') <> (old.targets = '{}') THEN
        RAISE EXCEPTION 'pipeline % cannot be given several targets, or one instead, where it stands', new.name
            USING ERRCODE = 'check_violation', HINT = 'edit it by console, command line or API, or insert another';
    END IF;
    IF new.targets <> '{}' THEN
        IF new.status <> 'IDLE' THEN
            RAISE EXCEPTION 'pipeline % is run target by target', new.name USING ERRCODE = 'check_violation',
                HINT = 'set the status of those that are part_of it';
        END IF;
        new.due_at := NULL;
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER pipeline_targets BEFORE INSERT OR UPDATE ON etl.etl_pipelines
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_targets();

-- Makes the pipelines of its targets what it says: new ones, those that are gone, and every field that makes a version,
-- whichever those are.
CREATE FUNCTION etl.spread(shared uuid) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    fields constant text := (
        SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)
        WHERE t.tgrelid = 'etl.etl_pipelines'::regclass AND t.tgname = 'pipeline_versions'
          AND a.attname <> ALL ('{name,target_table,targets,part_of}'));
BEGIN
    DELETE FROM etl.etl_pipelines m USING etl.etl_pipelines p
    WHERE p.id = shared AND m.part_of = p.id AND m.target_table <> ALL (p.targets);
    EXECUTE format('UPDATE etl.etl_pipelines m'
                   ' SET (name, %1$s) = (SELECT p.name || ''@'' || m.target_table, %1$s FROM etl.etl_pipelines p WHERE p.id = $1)'
                   ' WHERE m.part_of = $1', fields) USING shared;
    EXECUTE format('INSERT INTO etl.etl_pipelines (name, target_table, part_of, %1$s)'
                   ' SELECT p.name || ''@'' || t.one, t.one, p.id, %1$s'
                   ' FROM etl.etl_pipelines p CROSS JOIN unnest(p.targets) AS t (one) WHERE p.id = $1'
                   ' AND NOT EXISTS (SELECT FROM etl.etl_pipelines m WHERE m.part_of = p.id AND m.target_table = t.one)',
                   fields) USING shared;
    DELETE FROM etl.etl_pipeline_tasks t USING etl.etl_pipelines m WHERE t.pipeline_id = m.id AND m.part_of = shared;
    INSERT INTO etl.etl_pipeline_tasks (pipeline_id, order_index, task_type, body, target_table)
    SELECT m.id, t.order_index, t.task_type, t.body, t.target_table
    FROM etl.etl_pipeline_tasks t JOIN etl.etl_pipelines m ON m.part_of = t.pipeline_id WHERE t.pipeline_id = shared;
END $$;
REVOKE ALL ON FUNCTION etl.spread(uuid) FROM PUBLIC;

-- With each version of either: whoever edits a target by itself finds it as it was.
CREATE FUNCTION etl.version_spreads() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shared constant uuid := (SELECT CASE WHEN p.targets <> '{}' THEN p.id ELSE p.part_of END
                             FROM etl.etl_pipelines p WHERE p.id = new.pipeline_id);
BEGIN
    IF shared IS NOT NULL THEN
        PERFORM etl.spread(shared);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER version_spreads AFTER INSERT ON etl.etl_config_versions
    FOR EACH ROW EXECUTE FUNCTION etl.version_spreads();

-- How a pipeline stands; of several targets, the one that needs somebody most.
CREATE FUNCTION etl.status_of(p etl.etl_pipelines) RETURNS text LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p.targets = '{}' THEN p.status ELSE coalesce((
        SELECT m.status FROM etl.etl_pipelines m WHERE m.part_of = p.id
        ORDER BY array_position('{FAILED,RUNNING,PAUSE_REQUESTED,RUN_REQUESTED,PAUSED,IDLE,FOLLOWING}', m.status)
        LIMIT 1), p.status) END
$$;

-- Its targets, as pipelines.
CREATE FUNCTION etl.members_of(p etl.etl_pipelines) RETURNS jsonb LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((
        SELECT jsonb_agg(jsonb_build_object('id', m.id, 'name', m.name, 'target', m.target_table, 'status', m.status)
                         ORDER BY array_position(p.targets, m.target_table))
        FROM etl.etl_pipelines m WHERE p.targets <> '{}' AND m.part_of = p.id), '[]')
$$;

-- As in 0020, of marts alone.
CREATE OR REPLACE VIEW etl.etl_freshness AS
SELECT p.id AS pipeline_id, good.finished_at AS succeeded_at, p.freshness_limit::interval AS allowed,
       f.fresh_at, known.at AS known_at, p.mode = 'live' AND NOT l.follows AS behind,
       -- one that was never filled counts from when it was made
       p.enabled AND clock_timestamp() - coalesce(f.fresh_at, p.created_at) > p.freshness_limit::interval AS stale,
       CASE WHEN l.follows THEN 0 ELSE w.backlog END AS backlog, w.lag_ms
FROM etl.etl_pipelines p
LEFT JOIN etl.etl_followers w ON w.pipeline_id = p.id
LEFT JOIN etl.etl_behind b ON b.pipeline_id = p.id
LEFT JOIN LATERAL (SELECT r.tried_at, r.finished_at FROM etl.etl_runs r
                   WHERE r.pipeline_id = p.id AND r.status = 'SUCCESS' ORDER BY r.id DESC LIMIT 1) good ON true
CROSS JOIN LATERAL (SELECT w.pipeline_id IS NOT NULL AND w.reason IS NULL AND NOT w.concerned AS follows) l
CROSS JOIN LATERAL (SELECT greatest(w.committed_at, good.tried_at) AS at) known
CROSS JOIN LATERAL (
    SELECT CASE WHEN p.mode <> 'live' THEN good.tried_at
                WHEN l.follows THEN w.caught_up_at
                WHEN known.at IS NOT NULL THEN greatest(known.at, coalesce(b.since, w.caught_up_at)) END AS fresh_at) f
WHERE p.targets = '{}';
