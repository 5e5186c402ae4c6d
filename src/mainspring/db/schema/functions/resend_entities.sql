-- Tell one consumer what entities of a kind are now: an event 'snapshot' with a new number for each, one for each state where it has
-- states (of a stage's own consumer: its own). Answers how many events that were. Numbers rise in the order of commits, as
-- everywhere: the entities' rows are locked first, in order, and read by a later statement. A dao has no rows to lock.
create or replace function mainspring.resend_entities(kind text, keys text[], consumer text) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set datestyle = 'ISO, YMD'
  set intervalstyle = 'postgres'
  set bytea_output = 'hex'
  set extra_float_digits = 1
  as $$
declare
  declared mainspring.kind;
  of_stage text;
  shards integer := (select i.shard_count from mainspring.install i);
  source text;
  matches text;
  row_version text;
  told text[];
begin
  select k.* into strict declared from mainspring.kind k where k.name = resend_entities.kind;
  select c.declared ->> 'stage' into of_stage from mainspring.consumer c
    where c.kind = resend_entities.kind and c.name = resend_entities.consumer and c.retired_at is null;
  if not found then
    raise exception 'kind % has no consumer %', quote_literal(resend_entities.kind), quote_literal(resend_entities.consumer)
      using errcode = 'undefined_object';
  end if;
  if declared.source = 'dao' then
    raise exception 'kind % has a dao: its entities cannot be locked here', quote_literal(resend_entities.kind)
      using errcode = 'feature_not_supported';
  elsif declared.source = 'document' then
    source := 'mainspring.document';
    matches := format('t.kind = %L and t.key = i.key', resend_entities.kind);
    row_version := 't.version';
  else
    source := declared.source::regclass::text;
    select string_agg(format('t.%I = %s::%s', k.name,
        case when cardinality(declared.keys) = 1 then 'i.key' else format('(i.key::jsonb->>%s)', k.n - 1) end, k.type), ' and ')
      into matches from unnest(declared.keys, declared.key_types) with ordinality as k(name, type, n);
    row_version := case when declared.version_column = 'xmin' then 'null::bigint' else format('t.%I', declared.version_column) end;
  end if;
  execute format('select array_agg(x.key) from (
      select i.key from (select k.key from unnest($1) as k(key) order by mainspring.shard(k.key, $2), k.key) i
      join %s t on %s for share of t) x', source, matches)
    into told using keys, shards;
  execute format('with item as (
      select mainspring.shard(i.key, $2) as shard, i.key, %s as body, %s as version
      from unnest($1) as i(key) join %s t on %s
    ),
    event as (
      insert into mainspring.event (shard, kind, key, stage, what, entity_version, state_version, body)
      select i.shard, $3, i.key, coalesce(s.stage, $5), ''snapshot'', i.version, s.version,
        jsonb_build_object(''entity'', i.body, ''changed'', ''{}''::jsonb, ''schema'', coalesce(s.schema, 1), ''state'',
          case when s.message is null then s.body
            else jsonb_build_object(''@type'', s.message_type, ''value'', encode(s.message, ''base64'')) end)
      from item i
      left join mainspring.state s on s.shard = i.shard and s.kind = $3 and s.key = i.key and s.stage = coalesce($5, s.stage)
      order by i.shard, i.key, s.stage
      returning shard, key, number
    )
    insert into mainspring.delivery (shard, kind, key, consumer, number) select e.shard, $3, e.key, $4, e.number from event e',
    case declared.source when 'document' then 't.body' else 'to_jsonb(t.*)' end, row_version, source, matches)
    using told, shards, resend_entities.kind, resend_entities.consumer, of_stage;
  if told is not null then
    perform mainspring.offer_visits(resend_entities.kind || '!' || resend_entities.consumer, told,
      array_fill('{}'::jsonb, array[cardinality(told)]));
    perform mainspring.wake(resend_entities.kind || '!' || resend_entities.consumer, mainspring.now());
  end if;
  return coalesce(cardinality(told), 0);
end
$$;

-- A consumer is new: it begins with a snapshot of every entity, once every worker has read the catalogue again: whoever runs
-- this visit waits for that, since this transaction may be committed late.
create or replace function mainspring.resend_soon(kind text, consumer text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  perform mainspring.offer_visit_at('mainspring.snapshot' || case when k.pool = 'default' then '' else '@' || k.pool end,
      k.name || '!' || consumer, '{}'::jsonb, 5, mainspring.now())
    from mainspring.kind k where k.name = resend_soon.kind;
  return found;
end
$$;

-- Bring kept events to one consumer again: they are back in the outbox with their old numbers, with a delivery that names the
-- operation. What waits for the consumer in any case stays as it is. An event that is still there is locked by the update, before its
-- deliveries are looked at: whoever acknowledges it last does not take it away, and takes no delivery that this would count on.
-- Answers how many.
create or replace function mainspring.replay_events(kind text, consumer text, numbers bigint[], operation bigint) returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  told text[];
begin
  if not exists (select from mainspring.consumer c
    where c.kind = replay_events.kind and c.name = replay_events.consumer and c.retired_at is null) then
    raise exception 'kind % has no consumer %', quote_literal(replay_events.kind), quote_literal(replay_events.consumer)
      using errcode = 'undefined_object';
  end if;
  with item as materialized (
    select k.* from mainspring.event_kept k
    where k.kind = replay_events.kind and k.number = any(numbers)
    order by k.shard, k.key, k.number
  ),
  back as (
    insert into mainspring.event as e (shard, kind, key, number, stage, what, entity_version, state_version, body, run, created_at)
    select i.shard, i.kind, i.key, i.number, i.stage, i.what, i.entity_version, i.state_version, i.body, i.run, i.created_at
    from item i
    on conflict on constraint event_pkey do update set what = e.what
    returning e.shard, e.kind, e.key, e.number
  ),
  made as (
    insert into mainspring.delivery (shard, kind, key, consumer, number, replay)
    select b.shard, b.kind, b.key, replay_events.consumer, b.number, replay_events.operation from back b
    on conflict do nothing
  )
  select array_agg(distinct i.key) into told from item i;
  if told is not null then
    perform mainspring.offer_visits(replay_events.kind || '!' || replay_events.consumer, told,
      array_fill('{}'::jsonb, array[cardinality(told)]));
    perform mainspring.wake(replay_events.kind || '!' || replay_events.consumer, mainspring.now());
  end if;
  return cardinality(numbers);
end
$$;
