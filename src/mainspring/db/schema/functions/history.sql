-- The runs of a bundle, one row each.
create or replace function mainspring.runs_of(bundle mainspring.history_bundle)
  returns table (run bigint, id uuid, due_at timestamptz, created_at timestamptz, started_at timestamptz, ended_at timestamptz,
    duration_ms double precision, payload jsonb)
  language sql immutable parallel safe
  as $$
    select u.run, u.id, u.due_at, u.created_at, to_timestamp(u.started_us / 1e6::double precision),
      to_timestamp((u.started_us + u.took) / 1e6::double precision), u.took / 1e3::double precision, u.payload
    from unnest(bundle.runs, bundle.ids, bundle.due_at, bundle.created_at, bundle.started_us, bundle.took, bundle.payloads)
      as u(run, id, due_at, created_at, started_us, took, payload);
  $$;

-- Every run that was, whether it has a row of its own or a place in a bundle.
create or replace view mainspring.history as
  select day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id, created_at, due_at, started_at,
    ended_at, duration_ms, error_type, error, payload, result, searchable
  from mainspring.history_run
  union all
  select p.day, r.run, r.id, p.queue, r.id::text collate "C", null, p.priority, 1, 'done', false, p.worker_id, r.created_at, r.due_at,
    r.started_at, r.ended_at, r.duration_ms, null, null, r.payload, null, null
  from mainspring.history_bundle p
  cross join lateral mainspring.runs_of(p) r;

-- Workers of the release before write to history what has a row of its own.
create or replace function mainspring.add_to_history() returns trigger language plpgsql as $$
begin
  insert into mainspring.history_run (day, run, id, queue, key, grp, priority, attempt, outcome, superseded, worker_id, created_at,
    due_at, started_at, ended_at, duration_ms, error_type, error, payload, result, searchable)
  values (new.day, new.run, new.id, new.queue, new.key, new.grp, new.priority, new.attempt, new.outcome,
    coalesce(new.superseded, false), new.worker_id, new.created_at, new.due_at, new.started_at, new.ended_at, new.duration_ms,
    new.error_type, new.error, new.payload, new.result, new.searchable);
  return new;
end $$;
create or replace trigger add_to_history instead of insert on mainspring.history
  for each row execute function mainspring.add_to_history();

-- Bundles in which a key is (a few, which begin and end around it). Rides history_bundle_key.
create or replace function mainspring.bundles_with(key text) returns setof mainspring.history_bundle
  language sql stable parallel safe
  as $$
    select p.*
    from mainspring.history_bundle p
    where p.kin = left(bundles_with.key, 8) and p.last_key >= bundles_with.key and p.first_key <= bundles_with.key
      and case when bundles_with.key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then bundles_with.key::uuid end = any(p.ids);
  $$;

-- Bundles of a queue that have its newest runs of a span of time: all of them if `most` is null, else enough for so many runs.
-- Back from the end of the span bundles are counted that lie in it whole; when they are enough, what ended before all of
-- their runs is not among the newest. Rides history_bundle_begin and history_bundle_end: how little of them that is, no
-- statistics tell, so the planner is told (with an end of the span at both sides it takes it for small). Planned once for all
-- queues of a statement: to plan over all days takes longer than to read.
create or replace function mainspring.bundles_of(queue text, since timestamptz, until timestamptz, most bigint)
  returns setof mainspring.history_bundle
  language sql stable parallel safe set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
  as $$
    select p.*
    from mainspring.history_bundle p
    where p.queue = bundles_of.queue and p.first_end <= bundles_of.until and p.last_end <= 'infinity'
      and p.last_end >= greatest(bundles_of.since, (
        select b.first_end
        from (
          select w.first_end, sum(w.size) over (order by w.first_end desc rows unbounded preceding) as runs
          from mainspring.history_bundle w
          where w.queue = bundles_of.queue and w.first_end < bundles_of.until and w.last_end < bundles_of.until
            and w.first_end >= bundles_of.since and bundles_of.most is not null
        ) b
        where b.runs >= bundles_of.most
        order by b.first_end desc
        limit 1));
  $$;

-- Queues that have bundles, each found from the one before by a step down history_bundle_begin: few of many, as a rule.
create or replace function mainspring.bundled_queues() returns setof text
  language sql stable parallel safe set enable_seqscan = off set enable_bitmapscan = off
  as $$
    with recursive found(queue) as (
      select min(p.queue) from mainspring.history_bundle p
      union all
      select (select min(p.queue) from mainspring.history_bundle p where p.queue > f.queue)
      from found f
      where f.queue is not null
    )
    select queue from found where queue is not null;
  $$;
