-- Live marts: how the changes of a source are captured, and where the log of them stands.

CREATE SCHEMA IF NOT EXISTS etl_log;   -- the segments of the change log, made and dropped by runners

DROP TABLE etl.etl_changes;
DROP TABLE etl.etl_captures;

-- One row a source. Whoever holds the lease reads the source; an append locks this row and checks the epoch.
CREATE TABLE etl.etl_captures (
    source            text PRIMARY KEY,
    kind              text NOT NULL CHECK (kind IN ('wal', 'trigger')),
    tables            text[] NOT NULL,
    slot              text NOT NULL UNIQUE,      -- also the publication's name, and the mark on the trigger's schema
    installed_at      timestamptz,               -- NULL: being installed, nobody captures yet

    -- how far the source has been read, and what that means only there
    position          text,                      -- wal: an LSN; trigger: a snapshot
    system_identifier text,
    timeline          integer,
    fingerprints      jsonb NOT NULL DEFAULT '{}',   -- by relation: what changes when it is rewritten or altered

    -- the log: changes up to last_id are whole transactions; what is above is not published yet
    last_id           bigint NOT NULL DEFAULT 0,
    log_start         bigint NOT NULL DEFAULT 1,     -- the first id that is still kept
    recent            jsonb NOT NULL DEFAULT '{}',   -- by relation: the id of its newest change
    committed_at      timestamptz,                   -- of the newest transaction captured
    generation        integer NOT NULL DEFAULT 1,    -- another one: changes may be missing in between, compare in full
    generation_reason text NOT NULL DEFAULT 'installed',
    generation_at     timestamptz NOT NULL DEFAULT clock_timestamp(),

    -- the lease, as in etl_leases
    owner             uuid,
    runner            text,
    expires_at        timestamptz,
    epoch             bigint NOT NULL DEFAULT 0,
    backend_pid       integer,
    backend_start     timestamptz,

    -- how it goes
    caught_up_at      timestamptz,               -- when everything the source had was captured
    lag_bytes         bigint,
    safe_wal_size     bigint,
    wal_status        text,
    failures          integer NOT NULL DEFAULT 0,
    retry_at          timestamptz,
    last_error        text,
    updated_at        timestamptz NOT NULL DEFAULT clock_timestamp(),

    CHECK ((owner IS NULL) = (expires_at IS NULL)),
    CHECK (installed_at IS NULL OR position IS NOT NULL),
    CHECK (log_start BETWEEN 1 AND last_id + 1)
) WITH (fillfactor = 50);                        -- written many times a second, in place

-- Which tables of etl_log hold which ids: each from its first_id to the next one's.
CREATE TABLE etl.etl_change_segments (
    source   text NOT NULL REFERENCES etl.etl_captures ON DELETE CASCADE,
    first_id bigint NOT NULL,
    name     text NOT NULL UNIQUE,
    PRIMARY KEY (source, first_id)
);

-- How many bursts of a live pipeline a run sums up; 0: it is a run of its own.
ALTER TABLE etl.etl_runs ADD COLUMN bursts integer NOT NULL DEFAULT 0 CHECK (bursts >= 0);

-- Pipelines that follow the log, and the impact queries that a user supplies for them.
ALTER TABLE etl.etl_pipelines
    DROP CONSTRAINT etl_pipelines_mode_check,
    ADD CONSTRAINT etl_pipelines_mode_check CHECK (mode IN ('full', 'incremental', 'live')),
    ADD COLUMN impact jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(impact) = 'object');

DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
CREATE CONSTRAINT TRIGGER pipeline_versions
    AFTER INSERT OR UPDATE OF name, description, type, source, source_type, source_query, source_table, target_table,
        key, mode, incremental_key, incremental_id_key, batch_size, schedule_interval, enabled, python_task,
        on_drift, publish, mapping, settings, adopt, impact
    ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions();
