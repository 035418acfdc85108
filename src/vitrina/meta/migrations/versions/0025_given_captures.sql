-- compatible-with: 0007
-- A publication and a slot that somebody else made, by name: they are used and checked, never altered and never dropped.
-- NULL: our own, named as `slot`, which stays the name of the log.
ALTER TABLE etl.etl_captures
    ADD COLUMN given_publication text CHECK (given_publication <> ''),
    ADD COLUMN given_slot text CHECK (given_slot <> '');

-- Captures can be asked for: a runner answers, with the rights that it was given.
ALTER TABLE etl.etl_requests
    DROP CONSTRAINT etl_requests_kind_check,
    ADD CONSTRAINT etl_requests_kind_check CHECK (kind IN ('reconcile', 'preview', 'sink_health', 'capture'));
