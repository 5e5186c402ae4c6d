-- Visits that are not wanted any more, for layers' functions: they go without history, whatever they are at. A run under way has its
-- result dropped.

-- All visits of some keys: first those in the queues that are named, then those in queues whose names begin with the prefix. A run that
-- has its visit of the first kind locked may be adding visits of the second, which only a later statement sees.
-- Locks in (shard, key, queue) order. Rides the primary key: its caller forbids the other ways (end_entities), and has a search path
-- with pg_catalog first. Returns the keys, once for each visit.
create or replace function mainspring.end_visits(keys text[], queues text[], prefix text) returns text[]
  language plpgsql volatile
  as $$
declare
  shards constant integer := (select i.shard_count from mainspring.install i);
  gone_first text[];
  gone_then text[];
begin
  with gone as (
    select v.shard, v.key, v.queue
    from (select mainspring.shard(i.key, shards) as shard, i.key from unnest(keys) as i(key)) i
    join mainspring.visit v on v.shard = i.shard and v.key = i.key
    where v.queue = any (queues)
    order by v.shard, v.key, v.queue for update of v
  ),
  ended as (
    delete from mainspring.visit v using gone g where v.shard = g.shard and v.key = g.key and v.queue = g.queue
    returning v.key
  )
  select array_agg(e.key) into gone_first from ended e;
  with gone as (
    select v.shard, v.key, v.queue
    from (select mainspring.shard(i.key, shards) as shard, i.key from unnest(keys) as i(key)) i
    join mainspring.visit v on v.shard = i.shard and v.key = i.key
    where starts_with(v.queue, prefix)
    order by v.shard, v.key, v.queue for update of v
  ),
  ended as (
    delete from mainspring.visit v using gone g where v.shard = g.shard and v.key = g.key and v.queue = g.queue
    returning v.key
  )
  select array_agg(e.key) into gone_then from ended e;
  return gone_first || gone_then;
end
$$;

-- All visits of some queues, and of those whose names begin with a prefix. Reads the whole table: no index has every visit of a queue.
-- Returns how many.
create or replace function mainspring.clear_queues(queues text[], prefixes text[] default '{}') returns bigint
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  count bigint;
begin
  delete from mainspring.visit v
  where v.queue = any (queues) or exists (select from unnest(prefixes) as p(prefix) where starts_with(v.queue, p.prefix));
  get diagnostics count = row_count;
  return count;
end
$$;

-- One visit, by its queue and key. Rides the primary key. Returns whether it was there.
create or replace function mainspring.drop_visit(queue text, key text) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
begin
  delete from mainspring.visit v
  where v.shard = mainspring.shard(drop_visit.key, (select i.shard_count from mainspring.install i))
    and v.key = drop_visit.key and v.queue = drop_visit.queue;
  return found;
end
$$;
