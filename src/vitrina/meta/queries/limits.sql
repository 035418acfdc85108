-- name: temporary_files
-- Whether this role may bound its temporary files itself, and what it has of its own.
SELECT current_user AS role, current_setting('temp_file_limit') AS own,
       has_parameter_privilege('temp_file_limit', 'SET') AS may,
       pg_size_bytes(current_setting('temp_file_limit')) BETWEEN 0 AND pg_size_bytes(%(limit)s) AS bounded
