-- compatible-with: 0007
-- Of each relation, the columns that the change log keeps from here on; NULL: all of them. A program that does not know
-- of it keeps all, which is never too few.
ALTER TABLE etl.etl_captures ADD COLUMN images jsonb;
