-- What is old is found by its age, whatever there is beside it.
CREATE INDEX etl_runs_by_age ON etl.etl_runs (finished_at);
CREATE INDEX etl_audit_by_age ON etl.etl_audit (at);
CREATE INDEX etl_config_versions_by_age ON etl.etl_config_versions (changed_at);
-- A run that is forgotten asks each lease whether it speaks of it.
CREATE INDEX etl_leases_of_run ON etl.etl_leases (run_id) WHERE run_id IS NOT NULL;

-- What people did is not the runners' to touch; they may only have it forgotten by age, and nothing of the last month.
CREATE FUNCTION etl.forget_managed(audit_seconds double precision, version_seconds double precision, most integer)
    RETURNS TABLE (audit bigint, versions bigint, sessions bigint, answers bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    month constant double precision := 30 * 86400;
BEGIN
    DELETE FROM etl.etl_audit WHERE id IN (
        SELECT a.id FROM etl.etl_audit a WHERE a.at < now() - make_interval(secs => greatest(audit_seconds, month))
        ORDER BY a.at LIMIT most);
    GET DIAGNOSTICS audit = ROW_COUNT;
    -- The present version stays, and that of a run under way.
    DELETE FROM etl.etl_config_versions WHERE (pipeline_id, version) IN (
        SELECT v.pipeline_id, v.version FROM etl.etl_config_versions v JOIN etl.etl_pipelines p ON p.id = v.pipeline_id
        WHERE v.changed_at < now() - make_interval(secs => greatest(version_seconds, month)) AND v.version < p.version
          AND NOT EXISTS (SELECT FROM etl.etl_runs r WHERE r.pipeline_id = v.pipeline_id AND r.status = 'RUNNING'
                          AND v.version IN (r.config_version, p.reload_version))
        ORDER BY v.changed_at LIMIT most);
    GET DIAGNOSTICS versions = ROW_COUNT;
    DELETE FROM etl.etl_sessions WHERE hash IN (
        SELECT s.hash FROM etl.etl_sessions s WHERE s.expires_at < now() ORDER BY s.expires_at LIMIT most);
    GET DIAGNOSTICS sessions = ROW_COUNT;
    DELETE FROM etl.etl_idempotency WHERE key IN (
        SELECT i.key FROM etl.etl_idempotency i WHERE i.created_at < now() - interval '1 day'
        ORDER BY i.created_at LIMIT most);
    GET DIAGNOSTICS answers = ROW_COUNT;
    RETURN NEXT;
END $$;
REVOKE ALL ON FUNCTION etl.forget_managed(double precision, double precision, integer) FROM PUBLIC;

-- Every tick, and every change of a source, asks which live pipelines rest.
CREATE INDEX etl_pipelines_resting ON etl.etl_pipelines (source)
    WHERE mode = 'live' AND enabled AND status = 'IDLE' AND due_at IS NULL AND schedule_interval IS NULL;
