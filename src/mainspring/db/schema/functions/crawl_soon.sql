-- Stages are new in a kind that has entities: a crawl will ask them about every one (S26). It begins when every worker has read
-- the catalogue again, which each does once a second: a worker that does not know a stage yet cannot miss a change after that.
-- The table is not read: a migration does this as the owner of the schema, and code of the table's owner would run.
-- Of a kind on a dao only the worker knows whether there are ids. A visit of its own: the kind's schedule goes on as it stands.
create or replace function mainspring.crawl_soon(kind text, stages text[]) returns boolean
  language plpgsql volatile
  set search_path = pg_catalog, pg_temp
  as $$
declare
  queue_name text := (
    select 'mainspring.crawl' || case when k.pool = 'default' then '' else '@' || k.pool end
    from mainspring.kind k where k.name = crawl_soon.kind);
  visit_key constant text := crawl_soon.kind || '/new';
begin
  if cardinality(stages) = 0 or not exists (select from mainspring.kind k where k.name = crawl_soon.kind
    and case k.source when 'dao' then true
      when 'document' then exists (select from mainspring.document d where d.kind = k.name)
      else pg_relation_size(to_regclass(k.source)) > 0  -- of a partitioned table none: its leaves have it
        or exists (select from pg_partition_tree(to_regclass(k.source)) t where t.isleaf and pg_relation_size(t.relid) > 0) end) then
    return false;
  end if;
  insert into mainspring.visit as v (shard, key, queue, id, priority, due_at, version, payload, created_at, changed_at)
  select mainspring.shard(visit_key, i.shard_count), visit_key, queue_name, gen_random_uuid(), 5,
    mainspring.now() + interval '3 seconds', uuid_hash_extended(gen_random_uuid(), 0),
    (select jsonb_object_agg('ask:' || s, 1) from unnest(stages) s), mainspring.now(), mainspring.now()
  from mainspring.install i
  on conflict on constraint visit_pkey do update
  set version = excluded.version, payload = v.payload || excluded.payload, changed_at = excluded.changed_at,
    due_at = case when v.attempt > 0 then v.due_at else least(v.due_at, excluded.due_at) end;
  perform mainspring.wake(queue_name, mainspring.now() + interval '3 seconds');
  return true;
end
$$;
