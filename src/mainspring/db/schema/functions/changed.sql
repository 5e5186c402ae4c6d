-- Offer the system visits of entities by their canonical keys. A false key makes a visit that finds no entity.
create or replace function mainspring.offer_changed(kind text, keys text[], fields text[]) returns integer
  language plpgsql volatile security definer
  set search_path = pg_catalog, pg_temp
  as $$
declare
  payload jsonb := '{"out": 1}';
  count integer;
begin
  if keys is null then
    return 0;
  end if;
  if not exists (select from mainspring.kind k where k.name = offer_changed.kind) then
    raise exception 'unknown kind %', quote_literal(kind) using errcode = 'undefined_object';
  end if;
  if exists (select from unnest(keys) k where k is null or octet_length(k) not between 1 and 1300) then
    raise exception 'an id of kind % is null, empty or longer than 1300 bytes', quote_literal(kind)
      using errcode = 'invalid_parameter_value';
  end if;
  if fields is null then
    payload := payload || '{"new": 1}';
  else
    payload := payload || coalesce((select jsonb_object_agg('f:' || f, 1) from unnest(fields) f where f is not null), '{}');
  end if;
  count := mainspring.offer_visits(kind, keys, array_fill(payload, array[cardinality(keys)]));
  if (select k.notify from mainspring.kind k where k.name = offer_changed.kind) then
    perform mainspring.wake(kind, mainspring.now());
  end if;
  return count;
end
$$;

-- Say that entities changed, where no trigger does (capture 'call', a DAO), in the writer's own transaction and last in it:
-- offers the system visit of each. fields: what changed; null: unknown, so every stage is asked. Answers how many were offered.
-- Runs with the caller's rights, which print the keys; offer_changed takes texts.
create or replace function mainspring.changed(kind text, ids text[], fields text[] default null) returns integer
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select mainspring.offer_changed(changed.kind,
      (select array_agg(distinct c.key) from mainspring.canonical_keys(changed.kind, ids) c), fields)
  $$;

-- Say that entities were deleted, where no trigger does. It takes rights on the tables that it empties: it is not everybody's.
create or replace function mainspring.deleted(kind text, ids text[]) returns integer
  language sql volatile
  set search_path = pg_catalog, pg_temp
  as $$
    select coalesce((
      select mainspring.end_entities(deleted.kind, array_agg(distinct c.key))
      from mainspring.canonical_keys(deleted.kind, ids) c having count(*) > 0), 0)
  $$;
