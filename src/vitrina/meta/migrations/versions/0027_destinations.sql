-- compatible-with: 0007
-- Alerts go to several destinations, each by its own filter and in its own time. A program that knows of one webhook alone
-- claims what is still PENDING, as ever: by then it has been told nobody else.

-- Where the runners tell alerts, as their settings say; without anything secret.
CREATE TABLE etl.etl_destinations (
    name    text PRIMARY KEY,
    format  text NOT NULL,
    place   text NOT NULL,             -- host, or who gets mail
    labels  text[] NOT NULL,           -- only of pipelines with all of these
    events  text[] NOT NULL,           -- only these kinds; none: all
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()    -- when a runner last said that it has it
);

-- ROUTED: destinations have been found, and some are still to be told. UNWANTED: none wants it.
ALTER TABLE etl.etl_alerts
    DROP CONSTRAINT etl_alerts_status_check,
    ADD CONSTRAINT etl_alerts_status_check
        CHECK (status IN ('PENDING', 'ROUTED', 'DELIVERED', 'GIVEN_UP', 'UNWANTED')),
    DROP CONSTRAINT etl_alerts_check,
    ADD CONSTRAINT etl_alerts_check CHECK ((status IN ('PENDING', 'ROUTED')) = (finished_at IS NULL));

-- One alert to one destination; without an alert: a test that somebody asked for.
CREATE TABLE etl.etl_deliveries (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- their order
    alert_id    uuid REFERENCES etl.etl_alerts ON DELETE CASCADE,
    pipeline_id uuid,
    destination text NOT NULL,
    event       text NOT NULL,
    pipeline    text,                  -- its name then
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    status      text NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'GIVEN_UP')),
    attempts    integer NOT NULL DEFAULT 0,
    next_at     timestamptz NOT NULL DEFAULT clock_timestamp(),   -- whoever claims it moves this on
    last_error  text,
    answer      text,                  -- to the last attempt, its beginning
    took_ms     double precision,
    finished_at timestamptz,
    UNIQUE (alert_id, destination),
    CHECK ((status = 'PENDING') = (finished_at IS NULL)),
    CHECK ((alert_id IS NULL) = (event = 'test'))
);
CREATE INDEX etl_deliveries_pending ON etl.etl_deliveries (destination, pipeline_id, id) WHERE status = 'PENDING';
CREATE INDEX etl_deliveries_recent ON etl.etl_deliveries (destination, id);
CREATE INDEX etl_deliveries_by_age ON etl.etl_deliveries (created_at) WHERE alert_id IS NULL;

CREATE INDEX etl_alerts_of_pipeline ON etl.etl_alerts (pipeline_id, event, number);   -- whom an incident was told

-- As in 0005, with the labels that the pipeline has at that moment: they decide whom it is told.
CREATE OR REPLACE FUNCTION etl.open_incident(p etl.etl_pipelines, what text, more jsonb) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO etl.etl_incidents (pipeline_id, kind) VALUES (p.id, what) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO etl.etl_alerts (pipeline_id, event, details)
        VALUES (p.id, what, more || jsonb_build_object('name', p.name, 'target', p.effective_target, 'labels', p.labels));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION etl.close_incident(p etl.etl_pipelines, what text) RETURNS void LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    began timestamptz;
BEGIN
    DELETE FROM etl.etl_incidents i WHERE i.pipeline_id = p.id AND i.kind = what RETURNING i.since INTO began;
    IF FOUND THEN
        INSERT INTO etl.etl_alerts (pipeline_id, event, details)
        VALUES (p.id, 'recovered', jsonb_build_object('name', p.name, 'target', p.effective_target, 'labels', p.labels,
                                                      'after', what, 'since', began));
    END IF;
END $$;

-- A destination can be tested: a runner answers, which has its address.
ALTER TABLE etl.etl_requests
    DROP CONSTRAINT etl_requests_kind_check,
    ADD CONSTRAINT etl_requests_kind_check CHECK (kind IN ('reconcile', 'preview', 'sink_health', 'capture', 'alert'));
