-- compatible-with: 0007
-- Sources and sinks that do not answer a runner, by name: since when, and what the last attempt said.
ALTER TABLE etl.etl_runners ADD COLUMN neighbours jsonb NOT NULL DEFAULT '{}';
