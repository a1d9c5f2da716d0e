-- Role for SQL queries on Postgres (docs/pages.md). Run this file as a superuser in the database of the store.
-- Choose a password. Replace `hierogram` by the role of the daemon, and `public` by the schema of the store.

CREATE ROLE hierogram_sql LOGIN PASSWORD 'choose-one' CONNECTION LIMIT 8;

ALTER ROLE hierogram_sql SET default_transaction_read_only = on;
ALTER ROLE hierogram_sql SET statement_timeout = '60s';
ALTER ROLE hierogram_sql SET idle_in_transaction_session_timeout = '60s';
ALTER ROLE hierogram_sql SET temp_file_limit = '1GB';
ALTER ROLE hierogram_sql SET work_mem = '16MB';
ALTER ROLE hierogram_sql SET max_parallel_workers_per_gather = 0;

GRANT USAGE ON SCHEMA public TO hierogram_sql;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO hierogram_sql;
ALTER DEFAULT PRIVILEGES FOR ROLE hierogram IN SCHEMA public GRANT SELECT ON TABLES TO hierogram_sql;

-- Revoke functions on locks, sessions, settings, slots, large objects and files. This applies to this database, and not to superusers.
DO $$
DECLARE
    named regprocedure;
BEGIN
    FOR named IN
        SELECT oid
          FROM pg_proc
         WHERE pronamespace = 'pg_catalog'::regnamespace
           AND proname ~ '^(pg_(try_)?advisory_.*|pg_(terminate|cancel)_backend|pg_notify|set_config|pg_export_snapshot|pg_(create|copy|drop)_.*replication_slot|pg_sync_replication_slots|pg_replication_.*|pg_logical_.*|lo_.*|loread|lowrite|pg_read_.*|pg_ls_.*|pg_stat_file)$'
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', named);
    END LOOP;
END
$$;

-- The daemon needs one of them.
GRANT EXECUTE ON FUNCTION pg_advisory_xact_lock(bigint) TO hierogram;
