-- compatible-with: 0007
-- The note of a reading goes with its rows, which are UNLOGGED, when a server recovers from a crash, or another takes its
-- place; and it says how many they are. One that does not say is of a program that did not know, and is not believed.
ALTER TABLE etl.etl_readings SET UNLOGGED;
ALTER TABLE etl.etl_readings ADD COLUMN rows bigint;
