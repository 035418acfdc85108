-- compatible-with: 0007
-- What cannot be reached is waited for, without a slot; and what has failed is tried again, where its pipeline says so. A
-- program that does not know of it claims such a pipeline when it is due, as one that was asked for.
CREATE TABLE etl.etl_postponed (
    pipeline_id uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    run_id      bigint NOT NULL REFERENCES etl.etl_runs ON DELETE CASCADE,   -- the one that goes on, or has failed
    neighbour   text,                          -- who is away: a source, or a sink's prefix; NULL: it has failed
    since       timestamptz NOT NULL,
    tries       integer NOT NULL,              -- in a row without getting on
    batches     integer NOT NULL,              -- of the run, then
    error       text NOT NULL,
    remedy      text,
    next_at     timestamptz NOT NULL
);
CREATE INDEX etl_postponed_of_run ON etl.etl_postponed (run_id);

ALTER TABLE etl.etl_pipelines
    ADD COLUMN on_failure text NOT NULL DEFAULT 'stop' CHECK (on_failure IN ('stop', 'retry'));
DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
CREATE CONSTRAINT TRIGGER pipeline_versions
    AFTER INSERT OR UPDATE OF name, description, type, source, source_type, source_query, source_table, target_table,
        key, mode, incremental_key, incremental_id_key, batch_size, schedule_interval, enabled, python_task,
        on_drift, publish, mapping, settings, adopt, impact, freshness_limit, on_failure
    ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions();

-- What is left out says nothing: configurations from before are what they were.
CREATE OR REPLACE FUNCTION etl.pipeline_config(p etl.etl_pipelines) RETURNS jsonb LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_jsonb(p) - '{version,effective_target,created_at,updated_at,status,run_options,due_at,last_due_at,reload_version}'::text[]
        - CASE p.on_failure WHEN 'stop' THEN 'on_failure' ELSE '' END
        || jsonb_build_object('tasks', coalesce(
               (SELECT jsonb_agg(jsonb_build_object('order_index', t.order_index, 'task_type', t.task_type,
                                                    'body', t.body, 'target_table', t.target_table)
                                 ORDER BY t.order_index)
                FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id), '[]'))
$$;

ALTER TABLE etl.etl_incidents
    DROP CONSTRAINT etl_incidents_kind_check,
    ADD CONSTRAINT etl_incidents_kind_check CHECK (kind IN ('failed', 'stale', 'stuck', 'wrong', 'outage'));
ALTER TABLE etl.etl_alerts
    DROP CONSTRAINT etl_alerts_event_check,
    ADD CONSTRAINT etl_alerts_event_check CHECK (event IN ('failed', 'recovered', 'stale', 'stuck', 'wrong', 'outage'));

-- Nobody is waited for any more: the run has ended. One that failed keeps how often it has, in case it is tried again.
CREATE FUNCTION etl.wait_ended() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM etl.etl_postponed w
    WHERE w.pipeline_id = new.pipeline_id AND (new.status <> 'FAILED' OR w.neighbour IS NOT NULL);
    RETURN NULL;
END $$;
CREATE TRIGGER wait_ended AFTER UPDATE OF status ON etl.etl_runs
    FOR EACH ROW WHEN (old.status = 'RUNNING' AND new.status <> 'RUNNING') EXECUTE FUNCTION etl.wait_ended();
