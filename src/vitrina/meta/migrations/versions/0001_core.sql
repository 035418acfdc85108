-- The meta-store. What must never be true is refused here, whoever writes: a runner, the API, or a person in psql.

CREATE SCHEMA IF NOT EXISTS etl;
CREATE SCHEMA IF NOT EXISTS etl_stage;   -- scratch tables of running pipelines: keys found, rows staged

CREATE TABLE etl.etl_pipelines (
    id                 uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name               text NOT NULL UNIQUE CHECK (name <> ''),
    description        text NOT NULL DEFAULT '',
    type               text NOT NULL DEFAULT 'SQL' CHECK (type IN ('SQL', 'PYTHON')),
    source             text NOT NULL DEFAULT 'warehouse',
    source_type        text NOT NULL DEFAULT 'postgres' CHECK (source_type = 'postgres'),
    source_query       text,
    source_table       text,
    target_table       text,
    key                text[] NOT NULL DEFAULT '{}',
    mode               text NOT NULL DEFAULT 'full' CHECK (mode IN ('full', 'incremental')),
    incremental_key    text,
    incremental_id_key text,
    batch_size         integer NOT NULL DEFAULT 5000 CHECK (batch_size BETWEEN 1 AND 1000000),
    schedule_interval  text,
    enabled            boolean NOT NULL DEFAULT true,
    python_task        text,
    on_drift           text NOT NULL DEFAULT 'fail' CHECK (on_drift IN ('fail', 'add')),
    publish            text NOT NULL DEFAULT 'batches' CHECK (publish IN ('batches', 'atomic')),

    -- kept by triggers
    version            integer NOT NULL DEFAULT 1,
    effective_target   text UNIQUE,       -- after the last task's override: two pipelines, one target is refused
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),

    -- moved by the transitions of domain/lifecycle.py
    status             text NOT NULL DEFAULT 'IDLE' CHECK (status IN
                           ('IDLE', 'RUN_REQUESTED', 'RUNNING', 'PAUSE_REQUESTED', 'PAUSED', 'FAILED')),
    run_options        jsonb NOT NULL DEFAULT '{}'    -- of the run that is requested
                           CHECK (jsonb_typeof(run_options) = 'object' AND NOT run_options @? '$.* ? (@.type() != "boolean")'),
    due_at             timestamptz,                   -- RUN_REQUESTED: since when; IDLE: when next; otherwise nothing
    last_due_at        timestamptz,                   -- the last scheduled time that was claimed
    reload_version     integer                        -- the version that a running run should take at its next batch
);
-- Claiming asks "who is due, oldest first?" and scheduling "who has no due time yet?"; both are index scans.
CREATE INDEX etl_pipelines_due ON etl.etl_pipelines (due_at)
    WHERE enabled AND due_at IS NOT NULL AND status IN ('RUN_REQUESTED', 'IDLE');
CREATE INDEX etl_pipelines_unplanned ON etl.etl_pipelines (id)
    WHERE enabled AND due_at IS NULL AND status = 'IDLE' AND schedule_interval IS NOT NULL;

CREATE TABLE etl.etl_pipeline_tasks (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    pipeline_id  uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    order_index  integer NOT NULL,
    task_type    text NOT NULL CHECK (task_type IN ('SQL', 'PYTHON')),
    body         text NOT NULL CHECK (btrim(body) <> ''),
    target_table text,
    UNIQUE (pipeline_id, order_index)
);

CREATE TABLE etl.etl_config_versions (
    pipeline_id uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    version     integer NOT NULL,
    config      jsonb NOT NULL,
    changed_at  timestamptz NOT NULL DEFAULT now(),
    -- the caller that the API names for its transaction, else the role that signed in
    changed_by  text NOT NULL DEFAULT coalesce(nullif(current_setting('vitrina.actor', true), ''), session_user),
    PRIMARY KEY (pipeline_id, version)
);

-- One row a pipeline. The fence of every batch: `epoch` changes hands at claim, `seq` counts committed batches.
CREATE TABLE etl.etl_state (
    pipeline_id          uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    checkpoint           jsonb,
    last_processed_value text,
    last_processed_id    text,
    columns              jsonb,          -- the target, and the type of each column written: what drift is measured against
    config_hash          text,
    epoch                bigint NOT NULL DEFAULT 0,
    seq                  bigint NOT NULL DEFAULT 0,
    updated_at           timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE etl.etl_runs (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline_id    uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    status         text NOT NULL DEFAULT 'RUNNING' CHECK (status IN ('RUNNING', 'SUCCESS', 'FAILED', 'PAUSED')),
    attempt        integer NOT NULL DEFAULT 1,
    due_at         timestamptz,          -- the scheduled time it serves; NULL: requested
    options        jsonb NOT NULL DEFAULT '{}',
    config_version integer NOT NULL,
    runner         text NOT NULL,
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at    timestamptz,
    rows_read      bigint NOT NULL DEFAULT 0,
    rows_written   bigint NOT NULL DEFAULT 0,
    rows_deleted   bigint NOT NULL DEFAULT 0,
    rows_unchanged bigint NOT NULL DEFAULT 0,
    batches        integer NOT NULL DEFAULT 0,
    error          text,
    CHECK ((status = 'RUNNING') = (finished_at IS NULL))
);
CREATE UNIQUE INDEX etl_runs_one_running ON etl.etl_runs (pipeline_id) WHERE status = 'RUNNING';
CREATE UNIQUE INDEX etl_runs_one_per_due_time ON etl.etl_runs (pipeline_id, due_at, attempt) WHERE due_at IS NOT NULL;
CREATE INDEX etl_runs_recent ON etl.etl_runs (pipeline_id, id DESC);

CREATE TABLE etl.etl_run_events (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id bigint NOT NULL REFERENCES etl.etl_runs ON DELETE CASCADE,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    level  text NOT NULL,
    event  text NOT NULL,
    fields jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX etl_run_events_of_run ON etl.etl_run_events (run_id, id);
CREATE INDEX etl_run_events_by_age ON etl.etl_run_events (at);

-- Who holds a pipeline. Renewed by the heartbeat on its own connection; no batch keeps this row locked.
CREATE TABLE etl.etl_leases (
    pipeline_id   uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    owner         uuid,
    runner        text,
    run_id        bigint REFERENCES etl.etl_runs ON DELETE SET NULL,
    expires_at    timestamptz,
    backend_pid   integer,
    backend_start timestamptz,
    crashes       integer NOT NULL DEFAULT 0,
    CHECK ((owner IS NULL) = (expires_at IS NULL))
);
CREATE INDEX etl_leases_by_expiry ON etl.etl_leases (expires_at) WHERE owner IS NOT NULL;

CREATE TABLE etl.etl_runners (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    version    text NOT NULL,
    slots      integer NOT NULL,
    busy       integer NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);

-- Asked of runners, and no run: answered by whoever claims it, without touching the pipeline's status.
CREATE TABLE etl.etl_requests (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    pipeline_id uuid REFERENCES etl.etl_pipelines ON DELETE CASCADE,   -- NULL: a configuration that is not saved
    kind        text NOT NULL CHECK (kind IN ('reconcile', 'preview', 'sink_health')),
    params      jsonb NOT NULL DEFAULT '{}',
    asked_by    text NOT NULL DEFAULT session_user,
    status      text NOT NULL DEFAULT 'REQUESTED' CHECK (status IN ('REQUESTED', 'RUNNING', 'DONE', 'FAILED')),
    owner       uuid,
    runner      text,                            -- who has it, or had it last
    attempt     integer NOT NULL DEFAULT 0,      -- how many runners have taken it
    expires_at  timestamptz,
    result      jsonb,
    error       text,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at  timestamptz,
    finished_at timestamptz,
    CHECK (kind <> 'reconcile' OR pipeline_id IS NOT NULL),
    CHECK ((status = 'RUNNING') = (owner IS NOT NULL)),
    CHECK ((owner IS NULL) = (expires_at IS NULL)),
    CHECK ((status IN ('DONE', 'FAILED')) = (finished_at IS NOT NULL)),
    CHECK ((status = 'DONE') = (result IS NOT NULL)),
    CHECK ((status = 'FAILED') = (error IS NOT NULL))
);
CREATE INDEX etl_requests_open ON etl.etl_requests (created_at) WHERE status IN ('REQUESTED', 'RUNNING');
CREATE INDEX etl_requests_latest ON etl.etl_requests (pipeline_id, kind, created_at DESC);
CREATE INDEX etl_requests_by_age ON etl.etl_requests (finished_at);

CREATE TABLE etl.etl_captures (
    source            text PRIMARY KEY,
    kind              text NOT NULL CHECK (kind IN ('wal', 'trigger')),
    owner             uuid,
    expires_at        timestamptz,
    epoch             bigint NOT NULL DEFAULT 0,
    system_identifier text,
    timeline          integer,
    position          pg_lsn,
    updated_at        timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE etl.etl_changes (
    source    text NOT NULL REFERENCES etl.etl_captures ON DELETE CASCADE,
    id        bigint GENERATED ALWAYS AS IDENTITY,
    xid       xid8,
    lsn       pg_lsn,
    relation  text NOT NULL,
    op        "char" NOT NULL,
    old_image jsonb,
    new_image jsonb,
    PRIMARY KEY (source, id)
);

CREATE TABLE etl.etl_shadow (
    pipeline_id uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    generation  integer NOT NULL DEFAULT 1,
    doc_id      text NOT NULL,
    hash        bytea,               -- NULL: a tombstone
    version     bigint NOT NULL,
    PRIMARY KEY (pipeline_id, generation, doc_id)
);

CREATE TABLE etl.etl_tokens (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL UNIQUE,
    hash       bytea NOT NULL UNIQUE,
    role       text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);

-- Answers to requests with an Idempotency-Key, to be given again.
CREATE TABLE etl.etl_idempotency (
    key         text PRIMARY KEY,
    pipeline_id uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    answer      jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX etl_idempotency_by_age ON etl.etl_idempotency (created_at);

CREATE TABLE etl.etl_audit (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT now(),
    actor       text NOT NULL,
    action      text NOT NULL,
    pipeline_id uuid,
    details     jsonb NOT NULL DEFAULT '{}'
);

-- ── Triggers: a row written by hand in SQL is as good as any ──────────────────────────────────────────────────

-- A new pipeline gets its state and its lease row.
CREATE FUNCTION etl.pipeline_added() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO etl.etl_state (pipeline_id) VALUES (new.id);
    INSERT INTO etl.etl_leases (pipeline_id) VALUES (new.id);
    RETURN NULL;
END $$;
CREATE TRIGGER pipeline_added AFTER INSERT ON etl.etl_pipelines
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_added();

-- Only the moves of domain/lifecycle.py are legal; a request is due at once; an edited schedule is planned anew.
CREATE FUNCTION etl.pipeline_moves() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    legal constant text[] := ARRAY[
        'IDLE>RUN_REQUESTED', 'IDLE>RUNNING', 'IDLE>PAUSED',
        'RUN_REQUESTED>RUNNING', 'RUN_REQUESTED>PAUSED',
        'RUNNING>IDLE', 'RUNNING>RUN_REQUESTED', 'RUNNING>PAUSE_REQUESTED', 'RUNNING>FAILED',
        'PAUSE_REQUESTED>RUNNING', 'PAUSE_REQUESTED>PAUSED', 'PAUSE_REQUESTED>FAILED',
        'PAUSED>RUN_REQUESTED', 'FAILED>RUN_REQUESTED'];
BEGIN
    IF tg_op = 'INSERT' THEN
        IF new.status NOT IN ('IDLE', 'RUN_REQUESTED', 'PAUSED') THEN
            RAISE EXCEPTION 'a new pipeline cannot be %', new.status USING ERRCODE = 'check_violation',
                HINT = 'insert it as IDLE, RUN_REQUESTED or PAUSED';
        END IF;
    ELSIF new.status <> old.status AND NOT (old.status || '>' || new.status) = ANY (legal) THEN
        RAISE EXCEPTION 'pipeline % cannot go from % to %', new.name, old.status, new.status
            USING ERRCODE = 'check_violation';
    END IF;
    IF new.status = 'RUN_REQUESTED' THEN
        IF tg_op = 'INSERT' OR old.status <> 'RUN_REQUESTED' THEN
            new.due_at := now();
        END IF;
    ELSIF new.status <> 'IDLE' OR tg_op = 'INSERT' OR old.status <> 'IDLE'
          OR new.schedule_interval IS DISTINCT FROM old.schedule_interval THEN
        new.due_at := NULL;
    END IF;
    RETURN new;
END $$;
CREATE TRIGGER pipeline_moves BEFORE INSERT OR UPDATE ON etl.etl_pipelines
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_moves();

-- A changed configuration is a new version.
CREATE FUNCTION etl.pipeline_config(p etl.etl_pipelines) RETURNS jsonb LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_jsonb(p) - '{version,effective_target,created_at,updated_at,status,run_options,due_at,last_due_at,reload_version}'::text[]
        || jsonb_build_object('tasks', coalesce(
               (SELECT jsonb_agg(jsonb_build_object('order_index', t.order_index, 'task_type', t.task_type,
                                                    'body', t.body, 'target_table', t.target_table)
                                 ORDER BY t.order_index)
                FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id), '[]'))
$$;

CREATE FUNCTION etl.pipeline_versions() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p           etl.etl_pipelines;
    new_config  jsonb;
    new_version integer;
BEGIN
    SELECT * INTO p FROM etl.etl_pipelines
    WHERE id = (coalesce(to_jsonb(new), to_jsonb(old))
                ->> CASE tg_table_name WHEN 'etl_pipelines' THEN 'id' ELSE 'pipeline_id' END)::uuid;
    IF NOT FOUND THEN RETURN NULL; END IF;
    new_config := etl.pipeline_config(p);
    IF new_config IS NOT DISTINCT FROM (SELECT v.config FROM etl.etl_config_versions v
                                        WHERE v.pipeline_id = p.id ORDER BY v.version DESC LIMIT 1) THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(max(v.version), 0) + 1 INTO new_version FROM etl.etl_config_versions v WHERE v.pipeline_id = p.id;
    INSERT INTO etl.etl_config_versions (pipeline_id, version, config) VALUES (p.id, new_version, new_config);
    UPDATE etl.etl_pipelines
    SET version = new_version, updated_at = now(),
        effective_target = coalesce((SELECT t.target_table FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id
                                     ORDER BY t.order_index DESC LIMIT 1), p.target_table)
    WHERE id = p.id;
    RETURN NULL;
END $$;
-- Deferred to COMMIT: an edit of a pipeline and its tasks in one transaction is one version.
CREATE CONSTRAINT TRIGGER pipeline_versions
    AFTER INSERT OR UPDATE OF name, description, type, source, source_type, source_query, source_table, target_table,
        key, mode, incremental_key, incremental_id_key, batch_size, schedule_interval, enabled, python_task,
        on_drift, publish
    ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions();
CREATE CONSTRAINT TRIGGER pipeline_versions AFTER INSERT OR UPDATE OR DELETE ON etl.etl_pipeline_tasks
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions();

-- Runners listen: a request starts within milliseconds, polling is the fallback.
CREATE FUNCTION etl.pipeline_wakes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('vitrina_wake', new.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER pipeline_wakes AFTER INSERT OR UPDATE OF status, enabled, schedule_interval ON etl.etl_pipelines
    FOR EACH ROW WHEN (new.enabled AND (new.status IN ('RUN_REQUESTED', 'PAUSE_REQUESTED')
                                        OR new.status = 'IDLE' AND new.schedule_interval IS NOT NULL))
    EXECUTE FUNCTION etl.pipeline_wakes();

CREATE FUNCTION etl.request_wakes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('vitrina_wake', new.id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER request_wakes AFTER INSERT OR UPDATE OF status ON etl.etl_requests
    FOR EACH ROW WHEN (new.status = 'REQUESTED') EXECUTE FUNCTION etl.request_wakes();

-- The user's SELECT inside a statement that writes: it runs with the rights of this function's owner, the reader.
-- STABLE: it sees the snapshot of the calling statement, and plpgsql lets it do nothing but read. The block has a
-- handler so that it is a subtransaction: read-only for whatever the query calls, even with the rights of others,
-- and over at its end.
CREATE FUNCTION etl.read_as_reader(query text, args text[]) RETURNS SETOF record
    LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
    PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
    RETURN QUERY EXECUTE query USING args;
EXCEPTION WHEN SQLSTATE 'VITRA' THEN
    RAISE;
END $$;
REVOKE ALL ON FUNCTION etl.read_as_reader(text, text[]) FROM PUBLIC;
