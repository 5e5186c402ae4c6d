-- The queues of an entity, for anybody who speaks SQL: offer, peek, check, delete (S20).
-- In a transaction that also writes entities these calls come last: entities' rows are locked before visits everywhere.

-- The queue of a kind's stage (null: the system's), live or of the crawl; an error for a stage that the catalogue does not have.
create or replace function mainspring.stage_queue(kind text, stage text, crawl boolean default false) returns text
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
begin
  if not exists (select from mainspring.kind k where k.name = stage_queue.kind) then
    raise exception 'unknown kind %', quote_literal(kind) using
      errcode = 'undefined_object', hint = 'kinds are registered by a worker or by "mainspring migrate module:app"';
  end if;
  if stage is not null
    and not exists (select from mainspring.stage s where s.kind = stage_queue.kind and s.name = stage_queue.stage) then
    raise exception 'kind % has no stage %', quote_literal(kind), quote_literal(stage) using errcode = 'undefined_object';
  end if;
  return kind || coalesce('/' || stage, '') || case when crawl then '~' else '' end;
end
$$;

-- Offer an entity to a stage, or (stage null) to the system stage, which asks them all; now, or at a time. Always writes, so that
-- a run under way is followed by another. Answers whether the entity was not in the queue, or is now due earlier.
-- By the entity's canonical key: a false one makes a visit that finds no entity.
create or replace function mainspring.offer_entity(kind text, key text, stage text, at timestamptz) returns boolean
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  queue_name text := mainspring.stage_queue(offer_entity.kind, offer_entity.stage);
  wanted timestamptz := greatest(coalesce(offer_entity.at, mainspring.now()), mainspring.now());
  news jsonb := case when offer_entity.stage is null then '{"new": 1, "out": 1}'::jsonb else '{}' end;
begin
  if offer_entity.key is null or octet_length(offer_entity.key) not between 1 and 1300 then
    raise exception 'an id of kind % must have 1 to 1300 bytes', quote_literal(kind) using errcode = 'invalid_parameter_value';
  end if;
  if not isfinite(wanted) or wanted > mainspring.now() + interval '3660 days' then
    raise exception 'the time of a visit must be at most 3660 days from now, got %', at using errcode = 'invalid_parameter_value';
  end if;
  return mainspring.offer_visit_at(queue_name, offer_entity.key, news, 5, wanted);
end
$$;

-- The same by its id. It runs with the caller's rights, which print the key; offer_entity takes its text.
create or replace function mainspring.offer(kind text, id text, stage text default null, at timestamptz default null) returns boolean
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.offer_entity(offer.kind,
      (select c.key from mainspring.canonical_keys(offer.kind, array[offer.id]) c), offer.stage, offer.at)
  $$;

-- In which queues an entity is, and when it is due there: all stages, both lanes, the system stage, relays.
create or replace function mainspring.check_entity(kind text, id text)
  returns table (queue text, stage text, lane text, due_at timestamptz, state text, attempt integer, error text, key text)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  entity_key text := (select c.key from mainspring.canonical_keys(check_entity.kind, array[check_entity.id]) c);
begin
  return query
  select v.queue::text, t.stage, t.lane, v.due_at, t.state, v.attempt, v.error, v.key::text
  from mainspring.visit v
  cross join lateral (
    select
      case when v.queue like '%/%' then rtrim(split_part(v.queue, '/', 2), '~')
        when v.queue like '%!%' then split_part(v.queue, '!', 2) end as stage,
      case when v.queue like '%!%' then 'relay' when v.queue like '%~' then 'crawl' else 'live' end as lane,
      case when v.parked_at is not null then 'parked' when v.pass is not null then 'running'
        when v.due_at > mainspring.now() then 'scheduled' else 'waiting' end as state
  ) t
  where v.shard = mainspring.shard(entity_key, (select shard_count from mainspring.install))
    and v.key = entity_key
    and (v.queue in (check_entity.kind, check_entity.kind || '~') or starts_with(v.queue, check_entity.kind || '/')
      or starts_with(v.queue, check_entity.kind || '!'))
  order by v.due_at, v.queue;
end
$$;

-- The first entities of a stage's queue (null: the system's), in the order in which they will be visited. Parked and running
-- ones are not in it. Rides visit_due.
create or replace function mainspring.peek(kind text, stage text default null, most integer default 100, crawl boolean default false)
  returns table (key text, due_at timestamptz, priority smallint, attempt integer)
  language plpgsql stable
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  queue_name text := mainspring.stage_queue(peek.kind, peek.stage, peek.crawl);
begin
  return query
  select f.key, f.due_at, f.priority, f.attempt
  from generate_series(9, 0, -1) as p(priority)
  cross join lateral (
    select v.key::text, v.due_at, v.priority, v.attempt
    from mainspring.visit v
    where v.queue = queue_name and v.priority = p.priority and v.pass is null and v.parked_at is null
    order by v.due_at, v.key
    limit greatest(least(most, 10000), 0)) f
  order by f.due_at > mainspring.now(), case when f.due_at <= mainspring.now() then -f.priority end, f.due_at, f.key
  limit greatest(least(most, 10000), 0);
end
$$;

-- Take an entity out of a stage's queue, its timer with it. A run under way has its result dropped. Answers whether it was there.
-- The system stage's visit (stage null) may carry a change that no stage has seen: it goes by force only.
create or replace function mainspring.delete_visit(
    kind text, id text, stage text default null, crawl boolean default false, force boolean default false)
  returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
#variable_conflict use_column
declare
  queue_name text := mainspring.stage_queue(delete_visit.kind, delete_visit.stage, delete_visit.crawl);
  entity_key text := (select c.key from mainspring.canonical_keys(delete_visit.kind, array[delete_visit.id]) c);
begin
  if stage is null and not force then
    raise exception 'the system visit of % % may carry a change that no stage has seen; say force => true to drop it all the same',
      kind, id using errcode = 'invalid_parameter_value';
  end if;
  return mainspring.drop_visit(queue_name, entity_key);
end
$$;
