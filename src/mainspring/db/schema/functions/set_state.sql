-- Replace a stage's private state of an entity from outside, if its version is still the one given (0: there is none) (S11).
-- Answers true, or false if the version has moved; null if there is no such entity. The stage is asked again, and its consumers
-- get an event. It locks the entity's row first, as every save does: it may stand inside a transaction that also writes entities,
-- before the offers of that transaction. Of a DAO's entity there is no row to lock: there the state's own row is what is locked.
create or replace function mainspring.set_state(
  kind text, id text, stage text, version bigint, body jsonb,
  schema integer default 1, message bytea default null, message_type text default null
) returns boolean
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
  visit_key text;
  home integer;
  entity json;
  entity_version bigint;
  fresh bigint;
  consumers text[];
  consumer text;
  drawn bigint;
begin
  select c.key into visit_key from mainspring.canonical_keys(set_state.kind, array[set_state.id]) c;
  select k.* into strict declared from mainspring.kind k where k.name = set_state.kind;
  if not exists (select from mainspring.stage s where s.kind = set_state.kind and s.name = set_state.stage) then
    raise exception 'kind % has no stage %', quote_literal(set_state.kind), quote_literal(set_state.stage) using
      errcode = 'undefined_object', hint = 'stages are registered by a worker or by "mainspring migrate module:app"';
  end if;
  select mainspring.shard(visit_key, i.shard_count) into home from mainspring.install i;
  if declared.source = 'document' then
    select d.body::json, d.version into entity, entity_version
      from mainspring.document d where d.kind = set_state.kind and d.key = visit_key for no key update;
    if not found then
      return null;
    end if;
  elsif declared.source <> 'dao' then
    execute format('select row_to_json(t.*), %s from %s t where %s for no key update',
        case when declared.version_column = 'xmin' then 'null' else format('t.%I', declared.version_column) end,
        declared.source::regclass,
        (select string_agg(format('t.%I = %s::%s', k.name,
            case when cardinality(declared.keys) = 1 then '$1' else format('($1::jsonb->>%s)', k.n - 1) end, k.type), ' and ')
          from unnest(declared.keys, declared.key_types) with ordinality as k(name, type, n)))
      into entity, entity_version using visit_key;
    if entity is null then
      return null;
    end if;
  end if;
  if set_state.version = 0 then
    insert into mainspring.state as s (shard, kind, key, stage, schema, body, message, message_type)
    values (home, set_state.kind, visit_key, set_state.stage, set_state.schema, set_state.body, set_state.message,
      set_state.message_type)
    on conflict do nothing
    returning s.version into fresh;
  else
    update mainspring.state s
    set version = nextval('mainspring.state_version'), schema = set_state.schema, body = set_state.body,
      message = set_state.message, message_type = set_state.message_type, changed_at = mainspring.now()
    where s.shard = home and s.kind = set_state.kind and s.key = visit_key and s.stage = set_state.stage
      and s.version = set_state.version
    returning s.version into fresh;
  end if;
  if fresh is null then
    return false;
  end if;
  select array_agg(c.name order by c.name) into consumers
    from mainspring.consumer c
    where c.kind = set_state.kind and c.retired_at is null
      and (c.declared ->> 'stage' = set_state.stage or not c.declared ? 'stage');
  perform mainspring.offer_visits(set_state.kind, array[visit_key],
    array[jsonb_build_object('ask:' || set_state.stage, 1, 'out', 1)]);
  perform mainspring.wake(set_state.kind, mainspring.now());
  if consumers is not null then
    insert into mainspring.event (shard, kind, key, stage, what, entity_version, state_version, body)
    values (home, set_state.kind, visit_key, set_state.stage, 'state', entity_version, fresh,
      jsonb_build_object('entity', entity, 'changed', '{}'::jsonb, 'schema', set_state.schema, 'state',
        case when set_state.message is null then set_state.body
          else jsonb_build_object('@type', set_state.message_type, 'value', encode(set_state.message, 'base64')) end))
    returning number into drawn;
    if declared.declared ->> 'keep_events' is not null then
      insert into mainspring.event_kept (shard, kind, key, number, stage, what, entity_version, state_version, body, run)
      select e.shard, e.kind, e.key, e.number, e.stage, e.what, e.entity_version, e.state_version, e.body, e.run
      from mainspring.event e
      where e.shard = home and e.kind = set_state.kind and e.key = visit_key and e.number = drawn;
    end if;
    foreach consumer in array consumers loop
      insert into mainspring.delivery (shard, kind, key, consumer, number)
      values (home, set_state.kind, visit_key, consumer, drawn);
      perform mainspring.offer_visits(set_state.kind || '!' || consumer, array[visit_key], array['{}'::jsonb]);
      perform mainspring.wake(set_state.kind || '!' || consumer, mainspring.now());
    end loop;
  end if;
  return true;
end
$$;
