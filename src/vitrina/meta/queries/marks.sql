-- Advisory locks as marks: which session writes for a pipeline or a capture, whose turn it is. Anybody may take any
-- number, so a number alone says nothing: a holder counts only if it is a session of ours, by role and name.

-- name: leave
-- Until the end of the transaction. No: somebody has it.
SELECT pg_try_advisory_xact_lock(hashtextextended(%(name)s::text, %(seed)s)) AS mine

-- name: wait
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s::text, %(seed)s))

-- name: holders
SELECT k.pid, a.usename AS role, a.application_name AS application,
       a.usesysid = (SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user)
           AND starts_with(a.application_name, 'vitrina ') AS ours
FROM pg_locks k JOIN pg_stat_activity a ON a.pid = k.pid
WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1 AND k.pid <> pg_backend_pid()
  AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND k.classid::bigint << 32 | k.objid::bigint = hashtextextended(%(name)s::text, %(seed)s)

-- name: end
SELECT pg_terminate_backend(%(pid)s::integer)
