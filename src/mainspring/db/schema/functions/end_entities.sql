-- Entities were deleted: their states end, and their visits in all queues of the kind but the relays'; each living consumer gets
-- a 'deleted' event, behind whatever it has not got yet. The caller has the entities' rows locked (it deleted them), so event
-- numbers rise in commit order. bodies: the rows as they were, or null; versions: theirs, where the bodies do not have them.
-- Locks states, then visits, both in (shard, key, ...) order. Answers how many entities had a visit or a state.
create or replace function mainspring.end_entities(kind text, keys text[], bodies jsonb[] default null, versions bigint[] default null)
  returns integer
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  as $$
declare
  shards integer := (select shard_count from mainspring.install);
  consumers text[];
  consumer text;
  version_column text;
  had text[];
begin
  with gone as (
    select s.shard, s.key, s.stage
    from (select mainspring.shard(i.key, shards) as shard, i.key from unnest(keys) as i(key)) i
    join mainspring.state s on s.shard = i.shard and s.kind = end_entities.kind and s.key = i.key
    order by s.shard, s.key, s.stage for update of s
  ),
  ended as (
    delete from mainspring.state s using gone g
    where s.shard = g.shard and s.kind = end_entities.kind and s.key = g.key and s.stage = g.stage
    returning s.key
  )
  select array_agg(key) into had from ended;
  -- First the system's visits: a system run that has its own locked may be adding visits of stages.
  had := had || mainspring.end_visits(keys, array[kind, kind || '~'], kind || '/');
  select array_agg(c.name order by c.name) into consumers
    from mainspring.consumer c where c.kind = end_entities.kind and c.retired_at is null;
  if consumers is not null then
    select k.version_column into version_column from mainspring.kind k where k.name = end_entities.kind;
    with item as (
      select distinct on (1, 2) mainspring.shard(i.key, shards) as shard, i.key, i.body, i.version
      from unnest(keys, bodies, versions) as i(key, body, version)
      where octet_length(i.key) between 1 and 1300
      order by 1, 2
    ),
    told as (
      insert into mainspring.event (shard, kind, key, what, entity_version, body)
      select item.shard, end_entities.kind, item.key, 'deleted',
        coalesce(item.version, case when versions is null and jsonb_typeof(item.body->version_column) = 'number'
          then (item.body->>version_column)::numeric::bigint end),
        jsonb_build_object('entity', item.body)
      from item
      returning shard, key, number, entity_version, body
    ),
    kept as (
      insert into mainspring.event_kept (shard, kind, key, number, what, entity_version, body)
      select t.shard, end_entities.kind, t.key, t.number, 'deleted', t.entity_version, t.body
      from told t join mainspring.kind k on k.name = end_entities.kind and k.declared ->> 'keep_events' is not null
    )
    insert into mainspring.delivery (shard, kind, key, consumer, number)
    select t.shard, end_entities.kind, t.key, c.name, t.number from told t, unnest(consumers) as c(name);
    foreach consumer in array consumers loop
      perform mainspring.offer_visits(kind || '!' || consumer, keys, array_fill('{}'::jsonb, array[cardinality(keys)]));
      perform mainspring.wake(kind || '!' || consumer, mainspring.now());
    end loop;
  end if;
  return (select count(distinct key) from unnest(had) as h(key));
end
$$;
