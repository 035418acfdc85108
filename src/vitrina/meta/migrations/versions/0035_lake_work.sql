-- compatible-with: 0007
-- Marts in a lake that an engine writes by itself: a catalogue of work, where its commits are until a runner moves the
-- pointer that counts. The engine signs in as somebody who may write here, and only read etl_lake.
CREATE SCHEMA IF NOT EXISTS etl_lake_work;

CREATE TABLE IF NOT EXISTS etl_lake_work.iceberg_tables (LIKE etl_lake.iceberg_tables INCLUDING ALL);

CREATE TABLE IF NOT EXISTS etl_lake_work.iceberg_namespace_properties (
    LIKE etl_lake.iceberg_namespace_properties INCLUDING ALL
);

INSERT INTO etl_lake_work.iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
VALUES ('vitrina_work', 'work', 'exists', 'true') ON CONFLICT DO NOTHING;
