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
begin
  if cardinality(stages) = 0 or not exists (select from mainspring.kind k where k.name = crawl_soon.kind
    and case k.source when 'dao' then true
      when 'document' then exists (select from mainspring.document d where d.kind = k.name)
      else pg_relation_size(to_regclass(k.source)) > 0  -- of a partitioned table none: its leaves have it
        or exists (select from pg_partition_tree(to_regclass(k.source)) t where t.isleaf and pg_relation_size(t.relid) > 0) end) then
    return false;
  end if;
  perform mainspring.offer_visit_at(queue_name, crawl_soon.kind || '/new',
    (select jsonb_object_agg('ask:' || s, 1) from unnest(stages) s), 5, mainspring.now() + interval '3 seconds');
  return true;
end
$$;
