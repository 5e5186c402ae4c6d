-- Enqueue many calls as mainspring.enqueue does one, all or none, each under a new id: for a role that may not insert visits.
-- enqueue_calls.sql says how.
create or replace function mainspring.enqueue_many(
  tasks text[], arguments text[], due_ats timestamptz[], delays interval[], expires_ats timestamptz[], priorities integer[],
  groups text[], keys text[]
) returns table (id uuid, key text, is_new boolean)
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select e.id, e.key, e.is_new
    from mainspring.enqueue_calls(tasks, arguments, due_ats, delays, expires_ats, priorities, groups, keys, null) e
  $$;
