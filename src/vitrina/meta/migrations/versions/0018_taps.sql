-- compatible-with: 0007
-- The tap of a package that reads a source, by its own name; `kind` says how the source is set up. NULL: our own tap.
ALTER TABLE etl.etl_captures ADD COLUMN tap text CHECK (tap NOT IN ('', 'wal', 'trigger'));
