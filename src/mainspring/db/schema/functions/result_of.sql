-- What became of a call: its live row, or its last run in history; no row: unknown. Who has the id may ask, whatever his rights on
-- our tables. The key is that of the visit (its id, unless the call had a key). Rides the primary keys and history_bundle_key.
create or replace function mainspring.result_of(task text, id uuid, key text default null)
  returns table (state text, result text, error text)
  language plpgsql stable security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  visit_key constant text := coalesce(result_of.key, result_of.id::text);
begin
  return query
  select f.state, f.result, f.error
  from (
    select s.state::text as state, null::text as result, s.error, 1 as rank, null::timestamptz as ended_at
    from mainspring.visit_status s
    where s.key = visit_key and s.queue = result_of.task and s.id = result_of.id
    union all
    select case when (v.follow_up ->> 'due_at')::timestamptz > mainspring.now() then 'scheduled' else 'waiting' end, null, null, 1, null
    from mainspring.visit v  -- it waits behind the run that has its key
    where v.key = visit_key and v.queue = result_of.task and (v.follow_up ->> 'id')::uuid = result_of.id
    union all
    select h.outcome::text, h.result::text, h.error, 2, h.ended_at
    from mainspring.history_run h
    where h.key = visit_key and h.queue = result_of.task and h.id = result_of.id
      and h.outcome in ('done', 'cancelled', 'expired') and not h.superseded
    union all
    select 'done', null, null, 2, p.last_end
    from mainspring.history_bundle p
    where visit_key = result_of.id::text and p.kin = left(visit_key, 8) and p.last_key >= visit_key
      and p.first_key <= visit_key and p.queue = result_of.task and result_of.id = any(p.ids)
  ) f
  order by f.rank, f.ended_at desc
  limit 1;
end
$$;
