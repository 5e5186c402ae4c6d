-- What an operator does to visits. These run as the owner of the schema: an operator has no right to write payloads or history.

-- Free parked visits: due now, nothing counted against them, a new version. Each keeps its id (its idempotency key)
-- unless fresh ones are asked for, and its priority unless another is given. An expiry that has passed is lifted, and so
-- is one that a layer keeps in the payload (restarted_payload): an operator wants it to run.
-- Without shards a visit is found wherever it lies. Skips what others have locked. What is not answered was not freed.
-- Rides the primary key, one visit at a time: a join would walk over all that is parked at times, for every page of it.
create or replace function mainspring.restart_visits(
  shards text, keys text, queues text, versions text, priority smallint, fresh_ids boolean
) returns table (queue text, key text, id uuid, hints bigint)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  return query
  with wanted as materialized (
    select v.address, i.version
    from (
      select unnest(restart_visits.shards::integer[]) as shard, json_array_elements_text(restart_visits.keys::json) as key,
        json_array_elements_text(restart_visits.queues::json) as queue, unnest(restart_visits.versions::bigint[]) as version
    ) i
    cross join lateral (
      select ctid as address
      from mainspring.visit
      where key = i.key and queue = i.queue and shard = coalesce(i.shard, shard) and parked_at is not null
      for update skip locked
    ) v
  ),
  freed as (
    update mainspring.visit v
    set parked_at = null, offered_while_parked = false, attempt = 0, crashes = 0, work_timeouts = 0, error = null, error_type = null, fingerprint = null,
      called_off = null, due_at = mainspring.now(), version = w.version, priority = coalesce(restart_visits.priority, v.priority),
      id = case when restart_visits.fresh_ids then mainspring.uuid7() else v.id end,
      expires_at = case when v.expires_at > mainspring.now() then v.expires_at end,
      payload = mainspring.restarted_payload(v.payload),
      changed_at = mainspring.now()
    from wanted w
    where v.ctid = w.address
    returning v.queue, v.key, v.id
  ),
  hint as materialized (
    select mainspring.wake(queue, mainspring.now()) from (select distinct queue from freed) f
  )
  select f.queue::text, f.key::text, f.id, (select count(*) from hint)
  from freed f;
end
$$;

-- Call visits off: delete them and say so in history, so that whoever asks for their result is told.
-- The history row is no run: no time passes in it, its worker is the nil id. What a run holds is left alone; a short
-- run that holds nothing comes too late and its settle is refused.
-- Locks in (shard, key, queue) order and skips what others have locked. What is not answered was not called off.
create or replace function mainspring.cancel_visits(
  shards integer[], keys text[], queues text[], reason text, parked_only boolean
) returns table (queue text, key text, id uuid)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  return query
  with wanted as materialized (
    select v.shard, v.key, v.queue
    from unnest(cancel_visits.shards, cancel_visits.keys, cancel_visits.queues) as i(shard, key, queue)
    join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
    where v.pass is null and (v.parked_at is not null or not cancel_visits.parked_only)
    order by v.shard, v.key, v.queue
    for update of v skip locked
  ),
  gone as (
    delete from mainspring.visit v
    using wanted w
    where v.shard = w.shard and v.key = w.key and v.queue = w.queue
    returning v.id, v.queue, v.key, v.grp, v.priority,
      case when v.parked_at is null then least(v.attempt, 2147483646) + 1 else greatest(1, v.attempt) end as attempt, v.created_at, v.due_at, v.error, v.payload, v.called_off
  ),
  story as (
    insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, worker_id, created_at, due_at,
      started_at, ended_at, duration_ms, error, payload, searchable)
    select (mainspring.now() at time zone 'UTC')::date, mainspring.token(), g.id, g.queue, g.key, g.grp, g.priority, g.attempt,
      'cancelled', '00000000-0000-0000-0000-000000000000', g.created_at, g.due_at, mainspring.now(), mainspring.now(), 0,
      coalesce(g.called_off, cancel_visits.reason), g.payload,
      (select array_agg(left(f || '=' || (g.payload ->> f), 500)) from unnest(q.searchable) f where g.payload ? f)
    from gone g
    left join mainspring.queue q on q.name = g.queue
  )
  select g.queue::text, g.key::text, g.id
  from gone g;
end
$$;

-- Have the next step of an operation done, in the queue of a pool.
create or replace function mainspring.offer_operation(id bigint, queue text) returns void
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if queue <> 'mainspring.operation' and not starts_with(queue, 'mainspring.operation@')
    or not exists (select from mainspring.operation o where o.id = offer_operation.id) then
    raise exception 'there is no operation % in queue %', id, quote_literal(queue) using errcode = 'undefined_object';
  end if;
  perform mainspring.offer_visits(queue, array[id::text], array['{}'::jsonb]);
  perform mainspring.wake(queue, mainspring.now());
end
$$;
