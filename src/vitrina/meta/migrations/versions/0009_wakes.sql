-- compatible-with: 0007
-- Who ends a run plans the next one itself. To wake every runner for it, each time, kept them all from other work. A
-- program that does not know of it plans when it next looks around.
DROP TRIGGER pipeline_wakes ON etl.etl_pipelines;
CREATE TRIGGER pipeline_wakes AFTER INSERT ON etl.etl_pipelines
    FOR EACH ROW WHEN (new.enabled AND (new.status IN ('RUN_REQUESTED', 'PAUSE_REQUESTED')
                                        OR new.status = 'IDLE' AND new.schedule_interval IS NOT NULL))
    EXECUTE FUNCTION etl.pipeline_wakes();
CREATE TRIGGER pipeline_wakes_again AFTER UPDATE OF status, enabled, schedule_interval ON etl.etl_pipelines
    FOR EACH ROW WHEN (new.enabled AND (new.status IN ('RUN_REQUESTED', 'PAUSE_REQUESTED')
                                        OR new.status = 'IDLE' AND new.schedule_interval IS NOT NULL
                                           AND old.status <> 'RUNNING'))
    EXECUTE FUNCTION etl.pipeline_wakes();
