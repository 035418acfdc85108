-- Elasticsearch marts. An index has a shadow: a table of its own in schema etl_shadow with, for each document, its key
-- (typed as the query gives it), the hash of what was sent, and the version it was sent with. Of its own, so that a
-- rebuild fills another one beside it, and an old one is dropped rather than deleted from.

CREATE SCHEMA IF NOT EXISTS etl_shadow;
DROP TABLE etl.etl_shadow;

-- One row a generation of an index: `building` until it is complete, `live` while the alias points to it, `retired`
-- until it is removed. Documents with a version above `confirmed` were written ahead and may not have arrived.
CREATE TABLE etl.etl_indexes (
    pipeline_id  uuid NOT NULL REFERENCES etl.etl_pipelines ON DELETE CASCADE,
    generation   integer NOT NULL CHECK (generation > 0),
    target       text NOT NULL,               -- the alias that people search
    index_name   text NOT NULL,
    index_uuid   text,                        -- NULL: not created yet
    state        text NOT NULL DEFAULT 'building' CHECK (state IN ('building', 'live', 'retired')),
    shape        text NOT NULL,               -- hash of mapping and settings: another one means another generation
    key_columns  text[] NOT NULL,
    last_version bigint NOT NULL DEFAULT 0,   -- the highest version ever sent
    confirmed    bigint NOT NULL DEFAULT 0,   -- every document up to this version has arrived
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    retired_at   timestamptz,
    PRIMARY KEY (pipeline_id, generation),
    CHECK (confirmed <= last_version),
    CHECK ((state = 'retired') = (retired_at IS NOT NULL))
);
CREATE UNIQUE INDEX etl_indexes_one_live ON etl.etl_indexes (pipeline_id) WHERE state = 'live';
CREATE UNIQUE INDEX etl_indexes_one_building ON etl.etl_indexes (pipeline_id) WHERE state = 'building';

ALTER TABLE etl.etl_pipelines
    ADD COLUMN mapping  jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(mapping) = 'object'),
    ADD COLUMN settings jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(settings) = 'object'),
    ADD COLUMN adopt    boolean NOT NULL DEFAULT false;

DROP TRIGGER pipeline_versions ON etl.etl_pipelines;
CREATE CONSTRAINT TRIGGER pipeline_versions
    AFTER INSERT OR UPDATE OF name, description, type, source, source_type, source_query, source_table, target_table,
        key, mode, incremental_key, incremental_id_key, batch_size, schedule_interval, enabled, python_task,
        on_drift, publish, mapping, settings, adopt
    ON etl.etl_pipelines DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION etl.pipeline_versions();
