-- compatible-with: 0007
-- Marts with code of somebody's own (triggers, defaults, CHECKs, policies, indexes) are read and written as
-- `vitrina_writer`, in what Postgres calls a security-restricted operation: the code can neither become another role nor
-- leave anything behind that would run when it has ended (docs/adr/0005).
CREATE SCHEMA IF NOT EXISTS etl_sealed;   -- materialized views that live no longer than a statement

-- What such a view executes. The call is a table of the caller's; the answer, one row for all rows, is added to it.
CREATE FUNCTION etl.answer_sealed(call text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    statement text;
    args text[];
    row record;
    told jsonb[] := '{}';
BEGIN
    EXECUTE format('SELECT c.statement, c.args FROM %s AS c', call) INTO STRICT statement, args;
    SET CONSTRAINTS ALL IMMEDIATE;   -- what waits for the end of the transaction would wait in vain
    FOR row IN EXECUTE statement USING args[1], args[2], args[3], args[4] LOOP
        told := array_append(told, to_jsonb(row));
    END LOOP;
    EXECUTE format('INSERT INTO %s (answer) VALUES ($1)', call) USING to_jsonb(told);
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION etl.answer_sealed(text) FROM PUBLIC;

-- Runs a statement over a mart as the writer; its rows, as JSON. The scratch tables of a run, and a mart of the caller's
-- own, are lent for as long: nobody else ever sees the grants, nor the view, nor the call.
CREATE FUNCTION etl.ask_sealed(statement text, args text[], scratch text, mart text) RETURNS jsonb
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name constant text := replace(gen_random_uuid()::text, '-', '');
    call constant text := format('etl_stage.%I', 'c_' || name);
    door constant text := format('etl_sealed.%I', 'w_' || name);
    staged constant text := (SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
                             WHERE c.relnamespace = 'etl_stage'::regnamespace
                               AND c.relname = ANY (ARRAY['s_' || scratch, 'a_' || scratch, 'k_' || scratch]));
    keys constant text := to_regclass(format('etl_stage.%I', 'k_' || scratch))::text;
    is_lent constant boolean := NOT has_table_privilege('vitrina_writer', mart, 'SELECT')
                                OR NOT has_table_privilege('vitrina_writer', mart, 'INSERT')
                                OR NOT has_table_privilege('vitrina_writer', mart, 'UPDATE')
                                OR NOT has_table_privilege('vitrina_writer', mart, 'DELETE');
    marks constant text[] := etl.marks_held();
    answers jsonb[];
BEGIN
    IF is_lent THEN
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO vitrina_writer', mart);
    END IF;
    IF staged IS NOT NULL THEN
        EXECUTE format('GRANT SELECT ON %s TO vitrina_writer', staged);
    END IF;
    IF keys IS NOT NULL THEN
        EXECUTE format('GRANT INSERT ON %s TO vitrina_writer', keys);
    END IF;
    EXECUTE format('CREATE UNLOGGED TABLE %s (statement text, args text[], answer jsonb)', call);
    EXECUTE format('INSERT INTO %s (statement, args) VALUES ($1, $2)', call) USING statement, args;
    EXECUTE format('GRANT SELECT, INSERT ON %s TO vitrina_writer', call);

    EXECUTE format('CREATE MATERIALIZED VIEW %s AS SELECT etl.answer_sealed(%L) AS done WITH NO DATA', door, call);
    EXECUTE format('ALTER MATERIALIZED VIEW %s OWNER TO vitrina_writer', door);
    BEGIN
        EXECUTE format('REFRESH MATERIALIZED VIEW %s', door);
    EXCEPTION WHEN OTHERS OR query_canceled THEN
        PERFORM pg_advisory_unlock_all();   -- those of the session, which a pooler keeps; ours end with their transactions
        RAISE;
    END;
    EXECUTE format('DROP MATERIALIZED VIEW %s', door);
    PERFORM pg_advisory_unlock_all();
    IF etl.marks_held() IS DISTINCT FROM marks THEN
        RAISE EXCEPTION 'code of % takes an advisory lock by one number, as Vitrina''s own are', mart
            USING HINT = 'use the functions that take two numbers: pg_advisory_xact_lock(int, int)';
    END IF;
    EXECUTE format('SELECT array_agg(c.answer) FROM %s AS c WHERE c.statement IS NULL', call) INTO answers;
    IF cardinality(answers) IS DISTINCT FROM 1 THEN
        RAISE EXCEPTION 'code of % meddles with what is told of its own rows', mart;
    END IF;
    EXECUTE format('DROP TABLE %s', call);
    IF keys IS NOT NULL THEN
        EXECUTE format('REVOKE INSERT ON %s FROM vitrina_writer', keys);
    END IF;
    IF staged IS NOT NULL THEN
        EXECUTE format('REVOKE SELECT ON %s FROM vitrina_writer', staged);
    END IF;
    IF is_lent THEN
        EXECUTE format('REVOKE SELECT, INSERT, UPDATE, DELETE ON %s FROM vitrina_writer', mart);
    END IF;
    RETURN answers[1];
END $$;
REVOKE ALL ON FUNCTION etl.ask_sealed(text, text[], text, text) FROM PUBLIC;

-- The advisory locks by one number of this session.
CREATE FUNCTION etl.marks_held() RETURNS text[] LANGUAGE sql SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce(array_agg(format('%s %s', k.classid, k.objid) ORDER BY k.classid, k.objid), '{}')
    FROM pg_locks k WHERE k.locktype = 'advisory' AND k.objsubid = 1 AND k.pid = pg_backend_pid();
END;
REVOKE ALL ON FUNCTION etl.marks_held() FROM PUBLIC;
