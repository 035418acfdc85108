-- How old a mart may be, what is wrong at this moment, and what the world is told about it.

ALTER TABLE etl.etl_pipelines
    ADD COLUMN freshness_limit text CHECK (freshness_limit ~ '^\d{1,9}\s*[smhd]$');   -- as text an interval, too

DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
CREATE CONSTRAINT TRIGGER pipeline_versions
    AFTER INSERT OR UPDATE OF name, description, type, source, source_type, source_query, source_table, target_table,
        key, mode, incremental_key, incremental_id_key, batch_size, schedule_interval, enabled, python_task,
        on_drift, publish, mapping, settings, adopt, impact, freshness_limit
    ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions();

-- What is wrong now: opened once, closed when it is over.
CREATE TABLE etl.etl_incidents (
    pipeline_id uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    kind        text NOT NULL CHECK (kind IN ('failed', 'stale')),
    since       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline_id, kind)
);

-- The outbox: written in the transaction of what it tells, delivered by runners. It outlives its pipeline.
CREATE TABLE etl.etl_alerts (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),   -- of the delivery, however often it is made
    number      bigint GENERATED ALWAYS AS IDENTITY UNIQUE,   -- their order
    pipeline_id uuid NOT NULL,
    event       text NOT NULL CHECK (event IN ('failed', 'recovered', 'stale')),
    details     jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    status      text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'GIVEN_UP')),
    attempts    integer NOT NULL DEFAULT 0,
    next_at     timestamptz NOT NULL DEFAULT clock_timestamp(),   -- whoever claims it moves this on
    last_error  text,
    finished_at timestamptz,
    CHECK ((status = 'PENDING') = (finished_at IS NULL))
);
CREATE INDEX etl_alerts_pending ON etl.etl_alerts (pipeline_id, number) WHERE status = 'PENDING';
CREATE INDEX etl_alerts_by_age ON etl.etl_alerts (created_at);

-- Since when a live mart has been seen to lack something; it is noted only if its last change is no longer recent.
CREATE TABLE etl.etl_behind (
    pipeline_id uuid PRIMARY KEY REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    since       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- How old each mart is. `fresh_at`: it has everything that was committed before; NULL: it has never been filled.
CREATE VIEW etl.etl_freshness AS
SELECT p.id AS pipeline_id, good.finished_at AS succeeded_at, p.freshness_limit::interval AS allowed,
       f.fresh_at, known.at AS known_at, p.mode = 'live' AND NOT l.follows AS behind,
       -- one that was never filled counts from when it was made
       p.enabled AND clock_timestamp() - coalesce(f.fresh_at, p.created_at) > p.freshness_limit::interval AS stale
FROM etl.etl_pipelines p
JOIN etl.etl_state s ON s.pipeline_id = p.id
LEFT JOIN etl.etl_behind b ON b.pipeline_id = p.id
LEFT JOIN etl.etl_captures c ON p.mode = 'live' AND c.source = p.source AND c.installed_at IS NOT NULL
LEFT JOIN LATERAL (SELECT r.started_at, r.finished_at FROM etl.etl_runs r
                   WHERE r.pipeline_id = p.id AND r.status = 'SUCCESS' ORDER BY r.id DESC LIMIT 1) good ON true
CROSS JOIN LATERAL (
    SELECT p.mode = 'live' AND coalesce(
        s.checkpoint #>> '{live,source}' = c.source AND s.checkpoint #>> '{live,slot}' = c.slot
        AND (s.checkpoint #>> '{live,generation}')::integer = c.generation
        AND s.checkpoint #> '{live,comparing}' IS NULL
        AND (s.checkpoint #>> '{live,id}')::bigint BETWEEN c.log_start - 1 AND c.last_id
        AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(s.checkpoint #> '{live,tables}') AS t (relation)
                        WHERE (c.recent ->> t.relation)::bigint > (s.checkpoint #>> '{live,id}')::bigint),
        false) AS follows) l
CROSS JOIN LATERAL (
    SELECT greatest((s.checkpoint #>> '{live,committed_at}')::timestamptz, good.started_at) AS at) known
CROSS JOIN LATERAL (
    SELECT CASE WHEN p.mode <> 'live' THEN good.started_at
                WHEN l.follows THEN c.caught_up_at
                WHEN known.at IS NOT NULL THEN greatest(known.at, coalesce(b.since, c.caught_up_at)) END AS fresh_at) f;

-- Opened once: an incident that is open already tells nothing new.
CREATE FUNCTION etl.open_incident(p etl.etl_pipelines, what text, more jsonb) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO etl.etl_incidents (pipeline_id, kind) VALUES (p.id, what) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO etl.etl_alerts (pipeline_id, event, details)
        VALUES (p.id, what, more || jsonb_build_object('name', p.name, 'target', p.effective_target));
    END IF;
END $$;

CREATE FUNCTION etl.close_incident(p etl.etl_pipelines, what text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began timestamptz;
BEGIN
    DELETE FROM etl.etl_incidents i WHERE i.pipeline_id = p.id AND i.kind = what RETURNING i.since INTO began;
    IF FOUND THEN
        INSERT INTO etl.etl_alerts (pipeline_id, event, details)
        VALUES (p.id, 'recovered', jsonb_build_object('name', p.name, 'target', p.effective_target,
                                                      'after', what, 'since', began));
    END IF;
END $$;

-- Retries are over and the pipeline has failed, whoever says so: a runner, or the one that buried it.
CREATE FUNCTION etl.pipeline_failed() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM etl.open_incident(new, 'failed', coalesce(
        (SELECT jsonb_build_object('run', r.id, 'error', r.error) FROM etl.etl_runs r
         WHERE r.pipeline_id = new.id ORDER BY r.id DESC LIMIT 1), '{}'));
    RETURN NULL;
END $$;
CREATE TRIGGER pipeline_failed AFTER UPDATE OF status ON etl.etl_pipelines
    FOR EACH ROW WHEN (new.status = 'FAILED' AND old.status <> 'FAILED') EXECUTE FUNCTION etl.pipeline_failed();

CREATE FUNCTION etl.run_succeeded() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p etl.etl_pipelines;
BEGIN
    IF EXISTS (SELECT FROM etl.etl_incidents i WHERE i.pipeline_id = new.pipeline_id AND i.kind = 'failed') THEN
        SELECT * INTO p FROM etl.etl_pipelines WHERE id = new.pipeline_id;
        PERFORM etl.close_incident(p, 'failed');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER run_succeeded AFTER UPDATE OF status ON etl.etl_runs
    FOR EACH ROW WHEN (new.status = 'SUCCESS' AND old.status <> 'SUCCESS') EXECUTE FUNCTION etl.run_succeeded();
