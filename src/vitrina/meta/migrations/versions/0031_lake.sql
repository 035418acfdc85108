-- compatible-with: 0007
-- Marts in a lake. The catalogue of Iceberg's own SQL and JDBC catalogues: which file says what a table is now. Whoever
-- reads the lake finds its tables here; a runner moves the pointer in the transaction of its checkpoint. They may be there
-- already: a lake outlives a meta-store that was dropped.
CREATE SCHEMA IF NOT EXISTS etl_lake;

CREATE TABLE IF NOT EXISTS etl_lake.iceberg_tables (
    catalog_name               varchar(255) NOT NULL,
    table_namespace            varchar(255) NOT NULL,
    table_name                 varchar(255) NOT NULL,
    metadata_location          varchar(1000),
    previous_metadata_location varchar(1000),
    iceberg_type               varchar(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);

CREATE TABLE IF NOT EXISTS etl_lake.iceberg_namespace_properties (
    catalog_name   varchar(255) NOT NULL,
    namespace      varchar(255) NOT NULL,
    property_key   varchar(255) NOT NULL,
    property_value varchar(1000),
    PRIMARY KEY (catalog_name, namespace, property_key)
);
