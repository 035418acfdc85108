-- compatible-with: 0007
-- How far the database's clock has been seen, by whichever runner; one that is set back is noticed by it.
CREATE TABLE etl.etl_clock (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),     -- there is one clock
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_back   integer NOT NULL DEFAULT 0,                       -- how often it was
    jumped_at  timestamptz,                                      -- the last time, to or fro: by the new time
    jumped_by  interval
);
INSERT INTO etl.etl_clock DEFAULT VALUES;
