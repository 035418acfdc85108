-- Pipelines of several targets.

-- name: rename
UPDATE etl.etl_pipelines SET name = %(name)s WHERE id = %(id)s

-- name: join
-- A pipeline becomes one of the targets of another; what its last task said of its target, the others' target says.
WITH task AS (UPDATE etl.etl_pipeline_tasks SET target_table = NULL WHERE pipeline_id = %(id)s)
UPDATE etl.etl_pipelines SET part_of = %(whole)s, target_table = %(target)s WHERE id = %(id)s

-- name: leave
UPDATE etl.etl_pipelines SET part_of = NULL WHERE id = %(id)s
