-- Call visits off, whether they wait or run. What no run holds is gone at once (cancel_visits). What the run of a task holds keeps its
-- row, and the request stands there: `called_off` says why, and an expiry long ago keeps anybody from starting it again. Its
-- worker is told, and finds it at its next beat if the word was lost. Whatever ends that run ends the visit: a result stands, all else
-- is 'cancelled' (settle.sql, end_called_off). The version stays, so that the run's own end is judged as any other.
-- A run of any other queue that holds its visit is left alone, and so is any if `spares_held`. Runs that hold nothing yet are told as well.
-- Locks in (shard, key, queue) order and waits, or skips what others have locked. Answers 'cancelled' or 'running'; what is not answered
-- was not called off. Rides the primary key.
create or replace function mainspring.call_off_visits(
  shards integer[], keys text[], queues text[], reason text, waits boolean, spares_held boolean
) returns table (queue text, key text, id uuid, answer text)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  free_shards integer[];
  free_keys text[];
  free_queues text[];
  told bigint[];
begin
  if call_off_visits.waits then
    perform from unnest(call_off_visits.shards, call_off_visits.keys, call_off_visits.queues) as i(shard, key, queue)
      join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
      order by v.shard, v.key, v.queue
      for update of v;
  end if;
  select array_agg(w.shard) filter (where w.pass is null), array_agg(w.key) filter (where w.pass is null),
      array_agg(w.queue) filter (where w.pass is null),
      array_agg(w.version) filter (where w.parked_at is null and w.due_at <= mainspring.now())
    into free_shards, free_keys, free_queues, told
    from (
      select v.shard, v.key, v.queue, v.pass, v.version, v.parked_at, v.due_at
      from unnest(call_off_visits.shards, call_off_visits.keys, call_off_visits.queues) as i(shard, key, queue)
      join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
      where v.pass is null or (not call_off_visits.spares_held and mainspring.is_call(v.queue, v.payload))
      order by v.shard, v.key, v.queue
      for update of v skip locked
    ) w;
  return query
  with asked as (
    update mainspring.visit v
    set called_off = coalesce(v.called_off, call_off_visits.reason, 'cancelled'), expires_at = '1970-01-01Z', changed_at = mainspring.now()
    from unnest(call_off_visits.shards, call_off_visits.keys, call_off_visits.queues) as i(shard, key, queue)
    where v.shard = i.shard and v.key = i.key and v.queue = i.queue and v.pass is not null and v.version = any(told)
    returning v.queue, v.key, v.id
  )
  select a.queue::text, a.key::text, a.id, 'running' from asked a
  union all
  select c.queue, c.key, c.id, 'cancelled'
  from mainspring.cancel_visits(free_shards, free_keys, free_queues, call_off_visits.reason, false) c;
  perform pg_notify('mainspring', 'stop ' || string_agg(t.version::text, ' '))
    from unnest(told) with ordinality as t(version, n) group by (t.n - 1) / 300;
end
$$;

-- End those visits that were called off and that no run holds any more. Locks and skips as cancel_visits does.
create or replace function mainspring.end_called_off(shards integer[], keys text[], queues text[])
  returns table (queue text, key text, id uuid)
  language sql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
    select c.*
    from (
      select array_agg(v.shard) as shards, array_agg(v.key::text) as keys, array_agg(v.queue::text) as queues
      from unnest(end_called_off.shards, end_called_off.keys, end_called_off.queues) as i(shard, key, queue)
      join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
      where v.called_off is not null and v.pass is null
    ) w
    cross join lateral mainspring.cancel_visits(w.shards, w.keys, w.queues, 'cancelled', false) c
  $$;

-- Make visits due now that are due later, whatever for; nothing that is counted of them changes. Nor does the version: what is wished
-- is the same. Locks in (shard, key, queue) order and skips what others have locked. Answers those that are due now and were not.
create or replace function mainspring.make_due(shards integer[], keys text[], queues text[])
  returns table (queue text, key text, id uuid, hints bigint)
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
begin
  return query
  with wanted as materialized (
    select v.shard, v.key, v.queue
    from unnest(make_due.shards, make_due.keys, make_due.queues) as i(shard, key, queue)
    join mainspring.visit v on v.shard = i.shard and v.key = i.key and v.queue = i.queue
    where v.pass is null and v.parked_at is null and v.due_at > mainspring.now()
    order by v.shard, v.key, v.queue
    for update of v skip locked
  ),
  due as (
    update mainspring.visit v
    set due_at = mainspring.now(), changed_at = mainspring.now()
    from wanted w
    where v.shard = w.shard and v.key = w.key and v.queue = w.queue
    returning v.queue, v.key, v.id
  ),
  hint as materialized (
    select mainspring.wake(queue, mainspring.now()) from (select distinct queue from due) d
  )
  select d.queue::text, d.key::text, d.id, (select count(*) from hint) from due d;
end
$$;

-- The call that waits behind this visit's run is over: the run goes on, and nothing comes after it. The row is locked by the caller.
create or replace function mainspring.call_off_follower(visit mainspring.visit, reason text) returns void
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform mainspring.close_call(mainspring.follower_of(visit), 'cancelled', reason);
  update mainspring.visit v set follow_up = null where v.shard = visit.shard and v.key = visit.key and v.queue = visit.queue;
end
$$;

-- The call that waits behind this visit's run runs as soon as that has ended. The row is locked by the caller.
create or replace function mainspring.make_follower_due(visit mainspring.visit) returns void
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    update mainspring.visit v set follow_up = v.follow_up || jsonb_build_object('due_at', mainspring.now())
    where v.shard = visit.shard and v.key = visit.key and v.queue = visit.queue
  $$;
