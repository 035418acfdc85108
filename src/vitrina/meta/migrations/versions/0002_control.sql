-- What the control plane needs: reloading a configuration under a run, and answers to repeated requests.

-- The version that a running run should take at its next batch.
ALTER TABLE etl.etl_pipelines ADD COLUMN reload_version integer;

CREATE OR REPLACE FUNCTION etl.pipeline_config(p etl.etl_pipelines) RETURNS jsonb LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_jsonb(p) - '{version,effective_target,created_at,updated_at,status,run_options,due_at,last_due_at,reload_version}'::text[]
        || jsonb_build_object('tasks', coalesce(
               (SELECT jsonb_agg(jsonb_build_object('order_index', t.order_index, 'task_type', t.task_type,
                                                    'body', t.body, 'target_table', t.target_table)
                                 ORDER BY t.order_index)
                FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id), '[]'))
$$;

-- Who changed it: the caller that the API names for its transaction, else the role that signed in.
ALTER TABLE etl.etl_config_versions ALTER changed_by
    SET DEFAULT coalesce(nullif(current_setting('vitrina.actor', true), ''), session_user);

CREATE TABLE etl.etl_idempotency (
    key         text PRIMARY KEY,
    pipeline_id uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    answer      jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX etl_idempotency_by_age ON etl.etl_idempotency (created_at);
