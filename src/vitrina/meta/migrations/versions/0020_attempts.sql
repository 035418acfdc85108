-- compatible-with: 0007
-- A run is one row, however often it is tried; its attempts are rows of their own. What older programs have written, and
-- write, has a row of `etl_runs` for each attempt, which then is the only one within it.
ALTER TABLE etl.etl_runs
    ADD COLUMN tried_at timestamptz NOT NULL DEFAULT clock_timestamp(),   -- when its last attempt began
    ADD COLUMN waiting_since timestamptz,                -- open, and nobody has it: it goes on in another attempt
    ADD CHECK (waiting_since IS NULL OR status = 'RUNNING');
UPDATE etl.etl_runs SET tried_at = started_at;
ALTER TABLE etl.etl_leases ADD COLUMN attempt integer NOT NULL DEFAULT 1;   -- of the run, which alone may go on with it

CREATE TABLE etl.etl_run_attempts (
    run_id      bigint NOT NULL REFERENCES etl.etl_runs ON DELETE CASCADE,
    attempt     integer NOT NULL,
    runner      text NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    status      text NOT NULL DEFAULT 'RUNNING' CHECK (status IN ('RUNNING', 'SUCCESS', 'FAILED', 'PAUSED')),
    error       text,
    remedy      text,
    PRIMARY KEY (run_id, attempt),
    CHECK ((status = 'RUNNING') = (finished_at IS NULL))
);
INSERT INTO etl.etl_run_attempts (run_id, attempt, runner, started_at, finished_at, status, error, remedy)
SELECT id, attempt, runner, started_at, finished_at, status, error, remedy FROM etl.etl_runs;

-- Whoever moves a run moves its attempts. One that is followed by another has failed, unless it was closed before, with
-- what the run says is wrong meanwhile.
CREATE FUNCTION etl.run_attempted() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tg_op = 'UPDATE' THEN
        UPDATE etl.etl_run_attempts a
        SET status = CASE WHEN new.attempt = old.attempt THEN new.status ELSE 'FAILED' END,
            finished_at = clock_timestamp(), error = new.error, remedy = new.remedy
        WHERE a.run_id = new.id AND a.attempt = old.attempt AND a.status = 'RUNNING'
          AND (new.attempt <> old.attempt OR new.status <> 'RUNNING');
    END IF;
    IF tg_op = 'INSERT' OR new.attempt <> old.attempt THEN
        INSERT INTO etl.etl_run_attempts (run_id, attempt, runner, started_at)
        VALUES (new.id, new.attempt, new.runner, new.tried_at);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER run_attempted AFTER INSERT OR UPDATE OF status, attempt ON etl.etl_runs
    FOR EACH ROW EXECUTE FUNCTION etl.run_attempted();

-- A run that waits ends when somebody takes away what it waits in: it is paused, or disabled.
CREATE FUNCTION etl.wait_left() RETURNS trigger LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE etl.etl_runs r SET status = 'PAUSED', finished_at = clock_timestamp(), waiting_since = NULL
    WHERE r.pipeline_id = new.id AND r.status = 'RUNNING' AND r.waiting_since IS NOT NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER wait_left AFTER UPDATE OF status, enabled ON etl.etl_pipelines
    FOR EACH ROW WHEN (old.status = 'RUN_REQUESTED'
                       AND (new.status NOT IN ('RUN_REQUESTED', 'RUNNING') OR NOT new.enabled AND old.enabled))
    EXECUTE FUNCTION etl.wait_left();

-- As in 0017; what a run has seen is as old as its last attempt.
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
                WHEN known.at IS NOT NULL THEN greatest(known.at, coalesce(b.since, w.caught_up_at)) END AS fresh_at) f;
