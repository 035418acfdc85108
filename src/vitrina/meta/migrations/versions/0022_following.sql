-- compatible-with: 0022
-- A live mart is followed, not run: the run that makes it live ends, and a standing assignment begins. It has a status of
-- its own, the lease and the epoch of runs, and no run. Programs that do not know the status could neither show nor
-- claim it. Live pipelines that rest, or are being run, become so with the next success.
ALTER TABLE etl.etl_pipelines
    DROP CONSTRAINT etl_pipelines_status_check,
    ADD CONSTRAINT etl_pipelines_status_check CHECK (status IN
        ('IDLE', 'RUN_REQUESTED', 'RUNNING', 'PAUSE_REQUESTED', 'PAUSED', 'FAILED', 'FOLLOWING'));
-- Who looks for followers that nobody has asks just this.
CREATE INDEX etl_pipelines_following ON etl.etl_pipelines (id) WHERE status = 'FOLLOWING';

-- As in 0001, with the moves of a follower; one that steps down is due when it says.
CREATE OR REPLACE FUNCTION etl.pipeline_moves() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    legal constant text[] := ARRAY[
        'IDLE>RUN_REQUESTED', 'IDLE>RUNNING', 'IDLE>PAUSED',
        'RUN_REQUESTED>RUNNING', 'RUN_REQUESTED>PAUSED',
        'RUNNING>IDLE', 'RUNNING>RUN_REQUESTED', 'RUNNING>PAUSE_REQUESTED', 'RUNNING>FAILED', 'RUNNING>FOLLOWING',
        'PAUSE_REQUESTED>RUNNING', 'PAUSE_REQUESTED>PAUSED', 'PAUSE_REQUESTED>FAILED',
        'PAUSED>RUN_REQUESTED', 'FAILED>RUN_REQUESTED',
        'FOLLOWING>IDLE', 'FOLLOWING>RUN_REQUESTED', 'FOLLOWING>PAUSED', 'FOLLOWING>FAILED'];
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
    ELSIF new.status <> 'IDLE' OR tg_op = 'INSERT' OR old.status NOT IN ('IDLE', 'FOLLOWING')
          OR new.schedule_interval IS DISTINCT FROM old.schedule_interval THEN
        new.due_at := NULL;
    END IF;
    RETURN new;
END $$;

-- Whoever ends an assignment, by command or by hand, ends it at once: the lease is free, and the next epoch begins, so
-- that nothing of a slice under way is kept. It waits only for a slice that has passed its fence.
CREATE FUNCTION etl.following_ended() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE etl.etl_leases SET owner = NULL, expires_at = NULL, runner = NULL, run_id = NULL, crashes = 0
    WHERE pipeline_id = new.id;
    UPDATE etl.etl_state SET epoch = epoch + 1 WHERE pipeline_id = new.id;
    RETURN NULL;
END $$;
CREATE TRIGGER following_ended AFTER UPDATE OF status ON etl.etl_pipelines
    FOR EACH ROW WHEN (old.status = 'FOLLOWING' AND new.status <> 'FOLLOWING') EXECUTE FUNCTION etl.following_ended();

-- As in 0009, and when a follower begins, or steps down for a run.
CREATE OR REPLACE TRIGGER pipeline_wakes_again AFTER UPDATE OF status, enabled, schedule_interval ON etl.etl_pipelines
    FOR EACH ROW WHEN (new.enabled AND (new.status IN ('RUN_REQUESTED', 'PAUSE_REQUESTED')
                                        OR new.status = 'IDLE' AND new.schedule_interval IS NOT NULL
                                           AND old.status <> 'RUNNING'
                                        OR new.status = 'FOLLOWING' AND old.status <> 'FOLLOWING'
                                        OR new.status = 'IDLE' AND old.status = 'FOLLOWING'))
    EXECUTE FUNCTION etl.pipeline_wakes();

-- As in 0001. A mart that is followed and is to be otherwise has to be run; one that is disabled, or live on a schedule
-- from now on, rests.
CREATE OR REPLACE FUNCTION etl.pipeline_versions() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    editable constant text[] := '{batch_size,schedule_interval,freshness_limit,on_failure,enabled,description}';
    p           etl.etl_pipelines;
    old_config  jsonb;
    new_config  jsonb;
    new_version integer;
BEGIN
    SELECT * INTO p FROM etl.etl_pipelines
    WHERE id = (coalesce(to_jsonb(new), to_jsonb(old))
                ->> CASE tg_table_name WHEN 'etl_pipelines' THEN 'id' ELSE 'pipeline_id' END)::uuid;
    IF NOT FOUND THEN RETURN NULL; END IF;
    new_config := etl.pipeline_config(p);
    old_config := (SELECT v.config FROM etl.etl_config_versions v
                   WHERE v.pipeline_id = p.id ORDER BY v.version DESC LIMIT 1);
    IF new_config IS NOT DISTINCT FROM old_config THEN
        RETURN NULL;
    END IF;
    SELECT coalesce(max(v.version), 0) + 1 INTO new_version FROM etl.etl_config_versions v WHERE v.pipeline_id = p.id;
    INSERT INTO etl.etl_config_versions (pipeline_id, version, config) VALUES (p.id, new_version, new_config);
    UPDATE etl.etl_pipelines
    SET version = new_version, updated_at = now(),
        effective_target = coalesce((SELECT t.target_table FROM etl.etl_pipeline_tasks t WHERE t.pipeline_id = p.id
                                     ORDER BY t.order_index DESC LIMIT 1), p.target_table),
        status = CASE WHEN status <> 'FOLLOWING' THEN status
                      WHEN NOT enabled OR schedule_interval IS NOT NULL THEN 'IDLE'
                      WHEN new_config - editable <> old_config - editable THEN 'RUN_REQUESTED'
                      ELSE status END
    WHERE id = p.id;
    RETURN NULL;
END $$;

-- As in 0020, for rows that are over when they are written: those of a follower's hours, and of one that was given up.
CREATE OR REPLACE FUNCTION etl.run_attempted() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tg_op = 'UPDATE' THEN
        UPDATE etl.etl_run_attempts a
        SET status = CASE WHEN new.attempt = old.attempt THEN new.status ELSE 'FAILED' END,
            finished_at = clock_timestamp(), error = new.error, remedy = new.remedy
        WHERE a.run_id = new.id AND a.attempt = old.attempt AND a.status = 'RUNNING'
          AND (new.attempt <> old.attempt OR new.status <> 'RUNNING');
    END IF;
    IF tg_op = 'INSERT' THEN
        INSERT INTO etl.etl_run_attempts (run_id, attempt, runner, started_at, finished_at, status, error, remedy)
        VALUES (new.id, new.attempt, new.runner, new.tried_at, new.finished_at, new.status, new.error, new.remedy);
    ELSIF new.attempt <> old.attempt THEN
        INSERT INTO etl.etl_run_attempts (run_id, attempt, runner, started_at)
        VALUES (new.id, new.attempt, new.runner, new.tried_at);
    END IF;
    RETURN NULL;
END $$;
