-- A key at random, or none of a small table; about how many visits there are, and how large history is. Reads a few pages.
select
  (select v.key from mainspring.visit v tablesample system (0.1) order by random() limit 1) as key,
  (select greatest(0, c.reltuples)::bigint from pg_class c where c.oid = 'mainspring.visit'::regclass) as about,
  (
    select coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::bigint
    from pg_inherits i
    where i.inhparent in ('mainspring.history_run'::regclass, 'mainspring.history_bundle'::regclass)
  ) as history_bytes
